package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// defaultGrants lists the grants that are allowed if the policy lists no grants. They affect only
// the agent itself.
var defaultGrants = []string{"read:*"}

// CheckEntry finds the module of a middleware, and configures it as a run would. For tenants other
// than the operator's, it rejects grants that the policy does not allow, and limits above the
// defaults. It returns the module's digest.
func (a *Service) CheckEntry(
	ctx context.Context,
	c *httpapi.Caller,
	p *policy.Policy,
	f *agentfile.File,
	at string,
	m *agentfile.Middleware,
) (digest string, err error) {
	found, err := a.modules.Find(ctx, c.Tenant, string(m.Module))
	if errors.Is(err, store.ErrNoModule) {
		return "", FileProblem(
			agentfile.ErrorAt(f, at+".module", fmt.Errorf("module: %w; upload it with PUT /v1/modules?name=NAME", err)),
		)
	}
	if err != nil {
		return "", err
	}
	if c.Key.Tenant != store.Operator {
		allowed := p.Grants
		if len(allowed) == 0 {
			allowed = defaultGrants
		}
		for i, g := range m.Grants {
			host, isHost := strings.CutPrefix(string(g), "http:")
			if may := hook.Matches(allowed, string(g)) || isHost && policy.CoversHost(p.Hosts, host); !may {
				return "", FileProblem(
					agentfile.ErrorAt(f, fmt.Sprintf("%s.grants[%d]", at, i),
						fmt.Errorf("grants: the operator's policy does not allow this tenant to grant %s; %s", g, allowedText(allowed))),
				)
			}
		}
	}
	if c.Key.Tenant != store.Operator {
		if err := checkLimits(f, at, &m.Limits); err != nil {
			return "", FileProblem(err)
		}
	}
	done, err := a.admission.Compile(ctx, c.Key.Tenant)
	if err != nil {
		return "", err
	}
	defer done()
	loaded, release, err := a.modules.Acquire(ctx, c.Tenant, found.Digest, m.Limits.Policy())
	var refused *verify.RefusedError
	switch {
	case errors.As(err, &refused):
		named := *refused // the error is shared; the name is this tenant's
		named.Name = string(m.Module)
		return "", FileProblem(agentfile.ErrorAt(f, at+".module", &named))
	case err != nil:
		return "", err
	}
	defer release()
	grants, err := m.ModuleGrants()
	if err != nil {
		return "", FileProblem(agentfile.ErrorAt(f, at+".grants", err))
	}
	configured, err := module.Configure(ctx, loaded, m.Name, m.Config, grants)
	var config *module.ConfigError
	switch {
	case errors.As(err, &config):
		config.Module = string(m.Module)
		return "", FileProblem(agentfile.ErrorAt(f, at+".config", err))
	case err != nil:
		return "", err
	}
	configured.Close()
	return found.Digest, nil
}
