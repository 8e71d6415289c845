package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A secretsEnv provides a tenant's secrets to an agent file as environment variables.
type secretsEnv struct {
	pool *Pool
	plan *Plan

	mu    sync.Mutex
	first error // the first failure to read a secret
}

// getenv returns a function that looks up the tenant's secrets, and the operator's model
// settings if the agent may use that model.
func (v *secretsEnv) getenv(ctx context.Context) func(string) string {
	known := map[string]bool{}
	for _, s := range v.plan.Secrets {
		known[s.Name] = true
	}
	shared := v.plan.usesOperatorModel()
	return func(name string) string {
		if known[name] {
			return v.open(ctx, name)
		}
		if shared && slices.Contains(agentfile.ModelEnv, name) {
			return v.pool.options.Getenv(name)
		}
		return ""
	}
}

// open decrypts a secret of the tenant. It returns "" if that fails, and records the first error.
func (v *secretsEnv) open(ctx context.Context, name string) string {
	secret, err := v.plan.tenant.Secret(ctx, name)
	if err == nil {
		return string(secret)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.first != nil {
		return ""
	}
	v.first = err
	if errors.Is(err, store.ErrNoKeyring) {
		v.pool.log.Error("decrypt secret: the keys for secrets have changed",
			"tenant", v.plan.tenant.ID(), "secret", name, "error", err)
		v.first = &NotReadyError{
			v.plan.Spec.Agent,
			fmt.Errorf(
				"decrypt secret %s: the operator's keys for secrets have changed; set the secret again, or ask the operator to restore the former keys",
				name,
			),
		}
	}
	return ""
}

// err returns the first failure to read a needed secret. The agent must not run without the
// secret, since it might use a model with no key or with another key.
func (v *secretsEnv) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.first
}
