package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Build builds the agent of a plan. It fails with a [*NotReadyError] if the agent cannot run
// now.
func (f *Pool) Build(ctx context.Context, p *Plan) (*host.Agent, error) {
	if err := p.read(); err != nil {
		return nil, err
	}
	file := p.file
	if p.rings != nil {
		file.Rings = *p.rings
	}
	if limit := p.policy.StepLimit(); p.tenant.ID() != store.Operator && capSteps(file, limit) {
		f.log.Warn("agent runs with fewer steps than its file asks for",
			slog.String("tenant", p.tenant.ID()), slog.String("agent", p.Spec.Agent), slog.Int("max_steps", limit))
	}
	spec, err := json.Marshal(p.Spec)
	if err != nil {
		return nil, err
	}
	journal := f.options.Journal
	journal.Journal, journal.Tenant, journal.Spec = p.tenant.Journal(), p.tenant.ID(), spec
	operator := p.tenant.ID() == store.Operator
	vault := &secretsEnv{pool: f, plan: p}
	o := &host.FileOptions{
		Getenv: vault.getenv(
			ctx,
		), Logger: f.log, Values: f.options.Store, Tenant: p.tenant.ID(), Tracer: f.options.Tracer(p.tenant),
		Journal: &journal,
		Network: &egress.Options{
			Hosts:   append([]string{}, p.policy.Hosts...),
			Private: f.options.Private,
		}, GuardMCP: true, StartMCP: f.options.commandsOf(p.tenant.ID()), GuardModels: true, ModelURL: f.modelURL(p),
		LoadModule: f.loadModule(p),
	}
	if operator {
		o.Network.Hosts = nil
	} else if models := p.policy.Models; len(models) > 0 {
		o.AllowModel = func(model string) bool { return policy.Matches(models, model) }
	}
	if !operator {
		o.CheckParam = p.policy.ParamCheck()
		if err := checkModels(file, &p.policy); err != nil { // the policy may have changed since the agent was stored
			return nil, &NotReadyError{p.Spec.Agent, err}
		}
	}
	if p.usesOperatorModel() {
		o.Model = f.options.Model
		if !operator {
			o.ModelFailed = f.modelFailed(p)
		}
	}
	a, err := f.options.Host.NewAgentFromFile(ctx, file, o)
	if lost := vault.err(); lost != nil {
		if err == nil {
			a.Close()
		}
		return nil, lost
	}
	var known *httpapi.Problem
	if err != nil && !errors.As(err, &known) && ctx.Err() == nil {
		return nil, &NotReadyError{p.Spec.Agent, err}
	}
	return a, err
}

// modelFailed returns a function that logs failed calls of the operator's model. The tenant
// does not see the error, which contains the model's address and text from its endpoint.
func (f *Pool) modelFailed(p *Plan) func(context.Context, *model.Request, *model.Error) {
	return func(ctx context.Context, req *model.Request, e *model.Error) {
		f.log.WarnContext(
			ctx,
			"call of the operator's model failed",
			"tenant",
			p.tenant.ID(),
			"agent",
			p.Spec.Agent,
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

// capSteps lowers the max_steps of an agent and its sub-agents to limit. It reports whether any
// file asked for more.
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

// A NotReadyError reports that a stored agent cannot run now, for example because a key is
// missing or an MCP server does not respond.
type NotReadyError struct {
	Agent string
	Err   error
}

// Error implements error.
func (e *NotReadyError) Error() string { return fmt.Sprintf("agent %s cannot run: %v", e.Agent, e.Err) }

// Problem returns the error as problem details.
func (e *NotReadyError) Problem() *httpapi.Problem {
	return httpapi.NewProblem(api.CodeRefused, "%v", e)
}

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Err }

// loadModule returns a function that loads the modules of a plan by digest. It finds the modules of
// the operator's rings among the operator's modules, and all others among the tenant's.
func (f *Pool) loadModule(
	p *Plan,
) func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
	own, operators := f.agents.LoadModule(p.tenant), f.agents.LoadModule(f.options.Store.Tenant(store.Operator))
	return func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
		if p.operatorModules[strings.TrimSuffix(path, ".wasm")] && p.fromRings(entry) {
			return operators(ctx, entry, path, limits)
		}
		return own(ctx, entry, path, limits)
	}
}

// fromRings reports whether the middleware named entry belongs to the operator's rings.
func (p *Plan) fromRings(entry string) bool {
	for _, list := range [][]agentfile.Middleware{p.rings.Outer, p.rings.Inner} {
		for i := range list {
			if list[i].Name == entry {
				return true
			}
		}
	}
	return false
}
