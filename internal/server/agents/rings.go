package agents

import (
	"context"
	"strings"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// RingsName names the operator's agent whose rings surround the agents and routes of all tenants.
const RingsName = "rings"

// Rings are the modules that the operator puts around the agents and routes of tenants. A nil Rings
// has none.
type Rings struct {
	agentfile.Rings
	Requests agentfile.Requests // which parameters requests of model APIs may set
	entries  map[string]bool
	digests  map[string]bool
}

// ReadRings returns the rings of the operator's agent, or nil if stored is nil. It prefixes the names
// of the entries with OperatorName and a dot.
func ReadRings(stored *store.StoredAgent) (*Rings, error) {
	if stored == nil {
		return nil, nil
	}
	file, shown, err := readStored(stored)
	if err != nil {
		return nil, err
	}
	r := &Rings{Rings: file.Rings, Requests: file.Requests, entries: map[string]bool{}, digests: map[string]bool{}}
	for _, e := range shown.Modules {
		r.digests[httpapi.TrimDigest(e.Digest)] = true
	}
	for _, list := range [][]agentfile.Middleware{r.Outer, r.Inner} {
		for i := range list {
			list[i].Name = OperatorName + "." + list[i].Name
			r.entries[list[i].Name] = true
		}
	}
	return r, nil
}

// has reports whether an entry with a module is one of the rings.
func (r *Rings) has(entry, digest string) bool {
	return r != nil && r.entries[entry] && r.digests[digest]
}

// LoadModule returns a function for [host.FileOptions.LoadModule]. The function loads the modules of
// stored files, whose paths are digests followed by ".wasm". It searches for the modules of the rings
// among the operator's modules, and for all others among the tenant's modules. It fails if the
// operator blocks the module.
func (a *Service) LoadModule(
	t *store.Tenant,
	rings *Rings,
) func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
	operator := a.Options.Store.Tenant(store.Operator)
	return func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
		digest := strings.TrimSuffix(path, ".wasm")
		if rings.has(entry, digest) {
			return a.modules.Acquire(ctx, operator, digest, limits)
		}
		return a.modules.Acquire(ctx, t, digest, limits)
	}
}
