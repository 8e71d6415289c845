package agents

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

var agentType = reflect.TypeFor[api.Agent]()

// Checked holds the results of checking a file with modules.
type Checked struct {
	Entries  []api.Entry
	Warnings []string
}

// Digests returns the digests of the modules.
func (a *Checked) Digests() []string {
	out := []string{}
	for _, e := range a.Entries {
		out = append(out, httpapi.TrimDigest(e.Digest))
	}
	return out
}

// Add records a middleware, and warns of grants that are dangerous in combination. It assumes that
// the module reads the conversation if its grants allow that.
func (a *Checked) Add(at string, m *agentfile.Middleware, digest string) {
	a.Entries = append(a.Entries,
		api.Entry{At: at, Name: m.Name, Module: string(m.Module), Digest: httpapi.DigestPrefix + digest})
	var grants []string
	for _, g := range m.Grants {
		grants = append(grants, string(g))
	}
	for _, w := range modules.CombinedWarnings(true, grants, "") {
		a.Warnings = append(a.Warnings, m.Name+": "+w)
	}
}

func show(stored *store.StoredAgent, a *Checked) *api.Agent {
	return &api.Agent{Name: stored.Name, Version: stored.Version, Created: stored.Created.UTC(), YAML: string(stored.Body),
		Modules: append([]api.Entry{}, a.Entries...), Warnings: append([]string{}, a.Warnings...)}
}

// walk calls fn for each middleware of an agent and its sub-agents. f is the file of the agent or
// sub-agent. at is the middleware's location in that file, such as "rings.outer[0]".
func walk(f *agentfile.File, fn func(f *agentfile.File, at string, m *agentfile.Middleware)) {
	for _, ring := range []struct {
		at   string
		list []agentfile.Middleware
	}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
		for i := range ring.list {
			fn(f, fmt.Sprintf("%s[%d]", ring.at, i), &ring.list[i])
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			walk(inner, fn)
		}
	}
}

// check parses an agent file, and finds and configures its modules. It rejects a file that is
// invalid or that the tenant's policy does not allow. A missing model only causes a warning.
func (a *Service) check(ctx context.Context, c *httpapi.Caller, name string, body []byte) (*Checked, error) {
	policy, err := policy.Of(c.Info)
	if err != nil {
		return nil, err
	}
	var f *agentfile.File
	var invalid error
	if err := c.Parse(ctx, a.admission, len(body), func() error {
		f, invalid = agentfile.Parse(name, body)
		return nil
	}); err != nil {
		return nil, err
	}
	if err = invalid; err == nil && f.Name != "" && f.Name != name {
		err = agentfile.ErrorAt(
			f,
			"name",
			fmt.Errorf("name: differs from %q in the URL; remove it, or make it the same", name),
		)
	}
	if err == nil {
		err = checkFile(f, c, &policy, a.Options.commandsOf(c.Key.Tenant))
	}
	if err != nil {
		return nil, FileProblem(err)
	}
	out := &Checked{}
	if f.Model.Name == "" && name != RingsName {
		out.Warnings = append(out.Warnings, "the agent has no model, and cannot run: name one, model: {name: …}")
	}
	var wrong error
	walk(f, func(f *agentfile.File, at string, m *agentfile.Middleware) {
		if wrong != nil {
			return
		}
		digest, err := a.CheckEntry(ctx, c, &policy, f, at, m)
		if err != nil {
			wrong = err
			return
		}
		out.Add(at, m, digest)
	})
	return out, wrong
}

// FileProblem returns an error in a file as a problem, with the line and column if err has
// them. It returns a [*sandbox.ImageRoomError] unchanged.
func FileProblem(err error) error {
	if room := (*sandbox.ImageRoomError)(nil); errors.As(err, &room) {
		return err // the file is correct
	}
	p := httpapi.NewProblem(api.CodeInvalid, "%v", err)
	var at *agentfile.Error
	if errors.As(err, &at) {
		p.Errors = []api.FieldError{
			{Location: fmt.Sprintf("line %d, column %d", at.Line, at.Column), Message: at.Err.Error()},
		}
	}
	return p
}

// checkFile rejects an agent that reads files, names commands that are not listed, or exceeds the
// bounds of [agentfile.CheckBounds]. It rejects a tenant's agent that sets rings, or uses hosts, models,
// parameters or steps that the tenant's policy does not allow. Only the operator may set rings, and
// no policy applies to the operator. The same rules apply to sub-agents.
func checkFile(f *agentfile.File, c *httpapi.Caller, p *policy.Policy, commands Commands) error {
	operator := c.Key.Tenant == store.Operator
	if f.Tools.Root != "" {
		return agentfile.ErrorAt(f, "tools.root", errors.New("root: agents on a server cannot read files; remove root"))
	}
	for i, s := range f.Tools.MCP {
		at := fmt.Sprintf("tools.mcp[%d]", i)
		switch u, err := url.Parse(string(s.URL)); {
		case s.Command != nil:
			if err := checkCommand(&s, commands); err != nil {
				return agentfile.ErrorAt(f, at+".command", err)
			}
		case err != nil:
			return agentfile.ErrorAt(f, at+".url", err)
		case !operator && !policy.CoversHost(p.Hosts, policy.HostPort(u)):
			return agentfile.ErrorAt(f,
				at+".url",
				fmt.Errorf("url: the operator's policy does not allow this tenant to reach %s; %s%s",
					u.Host, allowedText(p.Hosts), policy.PortHint(policy.HostPort(u))),
			)
		}
	}
	if !operator && len(f.Rings.Outer)+len(f.Rings.Inner) > 0 {
		return agentfile.ErrorAt(
			f,
			"rings",
			errors.New("rings: only the operator can set rings; move the modules to middlewares"),
		)
	}
	if !operator {
		if err := checkModel(f, p); err != nil {
			return err
		}
	}
	if limit := p.StepLimit(); !operator && f.Limits.MaxSteps > limit {
		return agentfile.ErrorAt(f,
			"limits.max_steps",
			fmt.Errorf(
				"max_steps: %d exceeds %d, this tenant's maximum; lower it, or ask the operator for a policy with a larger max_steps",
				f.Limits.MaxSteps,
				limit,
			),
		)
	}
	if err := agentfile.CheckBounds(f); err != nil {
		return err
	}
	for i := range f.Agents {
		inner := f.Agents[i].Spec()
		if inner == nil {
			return agentfile.ErrorAt(f, fmt.Sprintf("agents[%d].file", i),
				errors.New("file: agents on a server cannot read files; write the agent inline, under agent"))
		}
		if err := checkFile(inner, c, p, commands); err != nil {
			return err
		}
	}
	return nil
}
