package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A vault is what an agent's file finds in the place of an environment.
type secretsEnv struct {
	fleet *Pool
	plan  *Plan

	mu    sync.Mutex
	first error // why a secret could not be had
}

// getenv finds the tenant's secrets, and the operator's model where the policy names
// its models and the file names no other address.
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
		if shared && (name == host.EnvAPIKey || name == host.EnvBaseURL) {
			return v.fleet.options.Getenv(name)
		}
		return ""
	}
}

// open opens a secret of the tenant.
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
		v.fleet.log.Error("a secret cannot be opened; is this the file of keys that it was sealed with?", "tenant", v.plan.tenant.ID(), "secret", name, "error", err)
		v.first = &NotReadyError{v.plan.Spec.Agent, fmt.Errorf("decrypt secret %s: the operator's keys for secrets have changed; set the secret again, or ask the operator to restore the former keys", name)}
	}
	return ""
}

// lost says why a secret that the agent needs could not be had: it is not to do
// without it, and ask a model with no key, or with another one.
func (v *secretsEnv) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.first
}
