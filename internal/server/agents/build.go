package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Build builds the agent of a plan. It fails with a [*NotReadyError] if the agent cannot run now. It
// returns errors of reading secrets, and the errors that [NotReady] does not wrap, unchanged.
func (p *Pool) Build(ctx context.Context, plan *Plan) (*host.Agent, error) {
	if err := plan.read(); err != nil {
		return nil, err
	}
	file := plan.file
	if plan.complete() {
		p.log.Warn("agent runs with fewer steps than its file asks for", slog.String("tenant", plan.tenant.ID()),
			slog.String("agent", plan.Spec.Agent), slog.Int("max_steps", plan.policy.StepLimit()))
	}
	spec, err := json.Marshal(plan.Spec)
	if err != nil {
		return nil, err
	}
	journal := p.options.Journal
	journal.Journal, journal.Tenant, journal.Spec = plan.tenant.Journal(), plan.tenant.ID(), spec
	operator := plan.tenant.ID() == store.Operator
	vault := &Vault{Tenant: plan.tenant, Secrets: plan.Secrets, User: "agent " + plan.Spec.Agent, Logger: p.log}
	if plan.usesOperatorModel() {
		vault.Operator = p.options.Getenv
	}
	o := &host.FileOptions{
		Getenv: vault.Getenv(
			ctx,
		), Logger: p.log, Values: p.options.Store, Tenant: plan.tenant.ID(), Tracer: p.options.Tracer(plan.tenant),
		Journal: &journal,
		Network: &egress.Options{
			Hosts:   append([]string{}, plan.policy.Hosts...),
			Private: p.options.Private,
		}, GuardMCP: true, StartMCP: p.options.commandsOf(plan.tenant.ID()), GuardModels: true, ModelURLs: p.modelURLs(plan),
		LoadModule: p.agents.LoadModule(plan.tenant, plan.rings),
	}
	plan.restrict(o)
	if operator {
		o.Network.Hosts = nil
	} else {
		if err := checkModels(file, &plan.policy); err != nil { // the policy may have changed since the agent was stored
			return nil, &NotReadyError{"agent " + plan.Spec.Agent, err}
		}
	}
	if plan.usesOperatorModel() {
		o.Model = p.options.Model
		if !operator {
			o.ModelFailed = p.modelFailed(plan)
		}
	}
	a, err := p.options.Host.NewAgentFromFile(ctx, file, o)
	if lost := vault.Err(); lost != nil {
		if err == nil {
			a.Close()
		}
		return nil, lost
	}
	if err != nil {
		return nil, NotReady(ctx, "agent "+plan.Spec.Agent, err)
	}
	return a, nil
}

// modelFailed returns a function that logs failed calls of the operator's model. The tenant
// does not see the error, which contains the model's address and text from its endpoint.
func (p *Pool) modelFailed(plan *Plan) func(context.Context, *model.Request, *model.Error) {
	return func(ctx context.Context, req *model.Request, e *model.Error) {
		p.log.WarnContext(
			ctx,
			"call of the operator's model failed",
			"tenant",
			plan.tenant.ID(),
			"agent",
			plan.Spec.Agent,
			"model",
			req.Model,
			"code",
			e.Code,
			"status",
			e.Status,
			"error",
			e.Message,
		)
	}
}

// capSteps lowers the max_steps of an agent and its sub-agents to limit. It sets a missing
// max_steps to the default, but at most to limit. It reports whether any file asked for more than
// limit.
func capSteps(f *agentfile.File, limit int) (lowered bool) {
	lowered = f.Limits.MaxSteps > limit
	f.Limits.MaxSteps = min(cmp.Or(f.Limits.MaxSteps, agent.DefaultMaxSteps), limit)
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && capSteps(inner, limit) {
			lowered = true
		}
	}
	return lowered
}
