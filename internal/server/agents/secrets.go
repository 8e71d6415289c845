package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

// A Vault provides a tenant's secrets to a file as environment variables.
type Vault struct {
	Tenant  *store.Tenant
	Secrets []store.SecretInfo // the secrets that exist
	User    string             // the user of the secrets in errors, such as "agent greeter"
	Logger  *slog.Logger
	// Operator, if not nil, returns the operator's model settings, which the file may use.
	Operator func(name string) string

	mu    sync.Mutex
	first error // the first failure to read a secret
}

// Getenv returns a function that looks up the tenant's secrets, and the operator's model settings if
// Operator is set.
func (v *Vault) Getenv(ctx context.Context) func(string) string {
	known := map[string]bool{}
	for _, s := range v.Secrets {
		known[s.Name] = true
	}
	return func(name string) string {
		if known[name] {
			return v.open(ctx, name)
		}
		if v.Operator != nil && slices.Contains(agentfile.ModelEnv, name) {
			return v.Operator(name)
		}
		return ""
	}
}

// open decrypts a secret of the tenant. It returns "" if that fails, and records the first error.
func (v *Vault) open(ctx context.Context, name string) string {
	secret, err := v.Tenant.Secret(ctx, name)
	if err == nil {
		return string(secret)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.first != nil {
		return ""
	}
	v.first = err
	if errors.Is(err, keyring.ErrNoKey) {
		v.Logger.Error("decrypt secret: the keys for secrets have changed",
			"tenant", v.Tenant.ID(), "secret", name, "error", err)
		v.first = &NotReadyError{
			v.User,
			fmt.Errorf(
				"decrypt secret %s: the operator's keys for secrets have changed; set the secret again, or ask the operator to restore the former keys",
				name,
			),
		}
	}
	return ""
}

// Err returns the first failure to read a needed secret. The file must not be used without the
// secret, since it might use a model with no key or with another key.
func (v *Vault) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.first
}
