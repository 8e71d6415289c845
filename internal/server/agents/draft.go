package agents

import (
	"context"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Draft is an agent file that was checked but is not stored.
type Draft struct{ agent *store.StoredAgent }

// Draft checks an agent file like one that is stored, and returns it as a draft. It fails with a
// [*httpapi.Problem] if the file is invalid.
func (a *Service) Draft(ctx context.Context, c *httpapi.Caller, name string, body []byte) (*Draft, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	checked, err := a.check(sandbox.WithTenant(ctx, a.admission.Sharer(c.Key.Tenant)), c, name, body)
	if err != nil {
		return nil, err
	}
	return &Draft{&store.StoredAgent{Name: name, Body: body, Modules: checked.Digests()}}, nil
}

// RerunDraft is like [Service.Rerun], but uses the file of a draft instead of the file of the spec's
// agent.
func (a *Service) RerunDraft(
	ctx context.Context,
	t *store.Tenant,
	spec Spec,
	d *Draft,
	o *host.FileOptions,
) (*agentfile.File, error) {
	plan, err := planOf(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	plan.Agent = d.agent
	return a.rerun(t, plan, o)
}
