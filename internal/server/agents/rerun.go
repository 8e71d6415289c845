package agents

import (
	"context"
	"strings"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Rerun returns the file of the agent of a spec, with the operator's rings, for a replay of a stored run. It
// sets the tenant's restrictions in o, and lets o load the modules of the tenant and of the rings.
func (a *Service) Rerun(
	ctx context.Context,
	t *store.Tenant,
	spec Spec,
	o *host.FileOptions,
) (*agentfile.File, error) {
	plan, err := planOf(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	return a.rerun(t, plan, o)
}

// rerun is [Service.Rerun] for a plan.
func (a *Service) rerun(t *store.Tenant, plan *Plan, o *host.FileOptions) (*agentfile.File, error) {
	if err := plan.read(); err != nil {
		return nil, err
	}
	plan.complete()
	plan.restrict(o)
	o.Tenant, o.Logger, o.LoadModule = t.ID(), a.Options.Logger, a.LoadModule(t, plan.rings)
	return plan.file, nil
}

// ReplaceModule sets the module of an entry of a stored file, or of its sub-agents, to the module
// with a digest. The entry of a sub-agent is prefixed with the sub-agent's name and a slash. If the
// file has no such entry, ReplaceModule searches for an entry whose name is equal without the
// version; see [Unpinned]. It reports whether the file has the entry, and returns the previous path of
// its module: a digest and ".wasm".
func ReplaceModule(f *agentfile.File, entry, digest string) (before string, ok bool) {
	path := agentfile.Path(digest + ".wasm")
	if before, ok = replaceModule(f, "", func(name string) bool { return name == entry }, path); ok {
		return before, true
	}
	return replaceModule(f, "", func(name string) bool { return Unpinned(name) == Unpinned(entry) }, path)
}

// Unpinned returns the name of an entry without the version of its module. The name of an entry that
// the file does not name contains the version: for module mask@1.2.0 it is mask@1.2, and for
// mask@1.3.0 it is mask@1.3.
func Unpinned(entry string) string {
	name, _, _ := strings.Cut(entry, "@")
	return name
}

func replaceModule(
	f *agentfile.File,
	prefix string,
	is func(name string) bool,
	path agentfile.Path,
) (before string, ok bool) {
	for i := range f.Middlewares {
		if m := &f.Middlewares[i]; is(prefix + m.Name) {
			before, m.Module = string(m.Module), path
			return before, true
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			if before, ok = replaceModule(inner, prefix+f.Agents[i].Name+"/", is, path); ok {
				return before, true
			}
		}
	}
	return "", false
}
