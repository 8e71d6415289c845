package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

var agentType = reflect.TypeFor[Agent]()

// A checkedAgent is an agent whose modules were found.
type checkedAgent struct {
	entries  []Entry
	warnings []string
}

func (a *checkedAgent) digests() []string {
	out := []string{}
	for _, e := range a.entries {
		out = append(out, bare(e.Digest))
	}
	return out
}

// add notes an entry, and warns of grants that combine badly. Whether the
// module looks at the conversation is not asked: the grants let it.
func (a *checkedAgent) add(at string, m *agentfile.Middleware, digest string) {
	a.entries = append(a.entries, Entry{At: at, Name: m.Name, Module: string(m.Module), Digest: digestPrefix + digest})
	var grants []string
	for _, g := range m.Grants {
		grants = append(grants, string(g))
	}
	for _, w := range combined(true, grants, "") {
		a.warnings = append(a.warnings, m.Name+": "+w)
	}
}

func (a *checkedAgent) show(kept *store.StoredAgent) *Agent {
	return &Agent{Name: kept.Name, Version: kept.Version, Created: kept.Created.UTC(), YAML: string(kept.Body),
		Modules: append([]Entry{}, a.entries...), Warnings: append([]string{}, a.warnings...)}
}

// walk calls fn for each module of an agent, and of the agents inside of it.
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

// check reads an agent.yaml, and refuses what could not be run, or not here.
func (a *agents) check(ctx context.Context, c *Caller, name string, body []byte) (*checkedAgent, error) {
	policy, err := policyOf(c)
	if err != nil {
		return nil, err
	}
	done := func() {}
	if len(body) > admission.SmallBody {
		if done, err = a.modules.admission.Turn(ctx, c.Key.Tenant); err != nil {
			return nil, err
		}
	}
	f, err := agentfile.Parse(name, body)
	done()
	if err == nil && f.Name != "" && f.Name != name {
		err = f.ErrorAt("name", fmt.Errorf("name: differs from %q in the URL; remove it, or make it the same", name))
	}
	if err == nil {
		err = checkFile(f, c, &policy, a.commandsOf(c.Key.Tenant))
	}
	if err != nil {
		return nil, misplaced(err)
	}
	out := &checkedAgent{}
	if f.Model.Name == "" && name != ringsName {
		out.warnings = append(out.warnings, "the agent has no model, and cannot run: name one, model: {name: …}")
	}
	var wrong error
	walk(f, func(f *agentfile.File, at string, m *agentfile.Middleware) {
		if wrong != nil {
			return
		}
		digest, err := a.checkEntry(ctx, c, &policy, f, at, m)
		if err != nil {
			wrong = err
			return
		}
		out.add(at, m, digest)
	})
	return out, wrong
}

// misplaced is what is wrong with a file, as a problem with its place.
func misplaced(err error) error {
	if room := (*sandbox.ImageRoomError)(nil); errors.As(err, &room) {
		return err // nothing is wrong with the file
	}
	p := problem(codeInvalid, "%v", err)
	var at *agentfile.Error
	if errors.As(err, &at) {
		p.Errors = []Wrong{{Location: fmt.Sprintf("line %d, column %d", at.Line, at.Column), Message: at.Err.Error()}}
	}
	return p
}

// checkFile rejects what reaches out of the tenant: files, commands, hosts and
// models that the operator did not allow.
func checkFile(f *agentfile.File, c *Caller, p *Policy, commands Commands) error {
	operator := c.Key.Tenant == store.Operator
	if f.Tools.Root != "" {
		return f.ErrorAt("tools.root", errors.New("root: agents on a server cannot read files; remove root"))
	}
	for i, s := range f.Tools.MCP {
		at := fmt.Sprintf("tools.mcp[%d]", i)
		switch u, err := url.Parse(string(s.URL)); {
		case s.Command != nil:
			if err := checkCommand(&s, commands); err != nil {
				return f.ErrorAt(at+".command", err)
			}
		case err != nil:
			return f.ErrorAt(at+".url", err)
		case !operator && !covered(p.Hosts, hostOf(u)):
			return f.ErrorAt(at+".url", fmt.Errorf("url: the operator's policy does not allow this tenant to reach %s; %s%s", u.Host, choice(p.Hosts), aboutPorts(hostOf(u))))
		}
	}
	if !operator && len(f.Rings.Outer)+len(f.Rings.Inner) > 0 {
		return f.ErrorAt("rings", errors.New("rings: only the operator can set rings; move the modules to middlewares"))
	}
	if !operator {
		if err := checkModel(f, p); err != nil {
			return err
		}
	}
	if most := p.maxSteps(); !operator && f.Limits.MaxSteps > most {
		return f.ErrorAt("limits.max_steps", fmt.Errorf("max_steps: %d exceeds %d, this tenant's maximum; lower it, or ask the operator for a policy with a larger max_steps", f.Limits.MaxSteps, most))
	}
	if err := f.CheckBounds(); err != nil {
		return err
	}
	for i := range f.Agents {
		inner := f.Agents[i].Spec()
		if inner == nil {
			return f.ErrorAt(fmt.Sprintf("agents[%d].file", i), errors.New("file: agents on a server cannot read files; write the agent inline, under agent"))
		}
		if err := checkFile(inner, c, p, commands); err != nil {
			return err
		}
	}
	return nil
}

// checkSpending refuses a file that asks for models or parameters which the tenant may
// not have, in itself or in an agent inside of it.
func checkSpending(f *agentfile.File, p *Policy) error {
	if err := checkModel(f, p); err != nil {
		return err
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			if err := checkSpending(inner, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkModel refuses models and parameters that the tenant may not have.
func checkModel(f *agentfile.File, p *Policy) error {
	if mayPass := p.mayPass(); mayPass != nil {
		for _, name := range slices.Sorted(maps.Keys(f.Model.Params)) {
			if err := mayPass(name); err != nil {
				return f.ErrorAt("model.params."+name, fmt.Errorf("params: %w", err))
			}
		}
	}
	if len(p.Models) == 0 {
		return nil
	}
	check := func(at, name string) error {
		if name == "" || matches(p.Models, name) {
			return nil
		}
		return f.ErrorAt(at, fmt.Errorf("model: the operator's policy does not allow this tenant to use %q; %s", name, choice(p.Models)))
	}
	if err := check("model.name", f.Model.Name); err != nil {
		return err
	}
	for i, fallback := range f.Model.Fallbacks {
		if err := check(fmt.Sprintf("model.fallbacks[%d]", i), fallback.Name); err != nil {
			return err
		}
	}
	for i, name := range f.Limits.Models {
		if err := check(fmt.Sprintf("limits.models[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}

// choice says what is allowed.
func choice(list []string) string {
	if len(list) == 0 {
		return "none are allowed"
	}
	return "allowed are " + strings.Join(list, ", ")
}

// defaultGrants are those that harm nobody but the agent that gives them.
var defaultGrants = []string{"read:*"}

// checkEntry finds an entry's module, and configures it as a run would.
func (a *agents) checkEntry(ctx context.Context, c *Caller, p *Policy, f *agentfile.File, at string, m *agentfile.Middleware) (digest string, err error) {
	found, err := a.modules.find(ctx, c.Tenant, string(m.Module))
	if errors.Is(err, store.ErrNoModule) {
		return "", misplaced(f.ErrorAt(at+".module", fmt.Errorf("module: %w; upload it with PUT /v1/modules?name=NAME", err)))
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
			if may := matches(allowed, string(g)) || isHost && covered(p.Hosts, host); !may {
				return "", misplaced(f.ErrorAt(fmt.Sprintf("%s.grants[%d]", at, i), fmt.Errorf("grants: the operator's policy does not allow this tenant to grant %s; %s", g, choice(allowed))))
			}
		}
	}
	if c.Key.Tenant != store.Operator {
		if err := checkLimits(f, at, &m.Limits); err != nil {
			return "", misplaced(err)
		}
	}
	done, err := a.modules.admission.Compile(ctx, c.Key.Tenant)
	if err != nil {
		return "", err
	}
	defer done()
	loaded, release, err := a.modules.take(ctx, c.Tenant, found.Digest, host.ModuleLimits(&m.Limits))
	var refused *sandbox.RefusedError
	switch {
	case errors.As(err, &refused):
		named := *refused // it is shared, and what it is called here is not
		named.Name = string(m.Module)
		return "", misplaced(f.ErrorAt(at+".module", &named))
	case err != nil:
		return "", err
	}
	defer release()
	grants, err := m.ModuleGrants()
	if err != nil {
		return "", misplaced(f.ErrorAt(at+".grants", err))
	}
	configured, err := loaded.Configure(ctx, m.Name, m.Config, grants)
	var config *module.ConfigError
	switch {
	case errors.As(err, &config):
		config.Module = string(m.Module)
		return "", misplaced(f.ErrorAt(at+".config", err))
	case err != nil:
		return "", err
	}
	configured.Close()
	return found.Digest, nil
}

// matches reports whether one of the patterns, which may end in *, is for s.
func matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == s || open && strings.HasPrefix(s, start)
	})
}

// covered reports whether hosts that are allowed have all of what is asked
// for: a host, or *. and one. Ports count: what has one is allowed as it is.
func covered(allowed []string, asked string) bool {
	host, port := splitPort(strings.ToLower(asked))
	return slices.ContainsFunc(allowed, func(p string) bool {
		may, mayPort := splitPort(strings.ToLower(p))
		under, open := strings.CutPrefix(may, "*.")
		return (mayPort == port || mayPort == "*") && (may == "*" || may == host || open && strings.HasSuffix(host, "."+under))
	})
}

// splitPort takes the port from a host, which has none if it means its scheme's.
func splitPort(s string) (host, port string) {
	if at := strings.LastIndexByte(s, ':'); at > strings.LastIndexByte(s, ']') {
		return s[:at], s[at+1:]
	}
	return s, ""
}

// hostOf is the host of an address, with its port where that is not its scheme's.
func hostOf(u *url.URL) string {
	if u.Port() == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}

// aboutPorts says why a host may be allowed and is not.
func aboutPorts(asked string) string {
	if _, port := splitPort(asked); port == "" {
		return ""
	}
	return "; a host without a port is allowed at 443 of https and 80 of http alone, one with :* at all ports"
}
