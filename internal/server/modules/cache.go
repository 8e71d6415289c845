package modules

import (
	"context"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/refcache"
)

// Limits on loaded modules that no agent uses.
const (
	idleTTL        = time.Minute
	maxIdleModules = 64
)

// A cache holds loaded modules, which are verified, compiled and described. Tenants whose modules
// have the same bytes and limits share one loaded module. Each run has its own instances of the
// module.
type cache = refcache.Cache[cacheKey, *host.Module]

type cacheKey struct {
	digest string
	limits host.Limits
}

func newCache(now func() time.Time) *cache {
	return refcache.New[cacheKey](
		refcache.Options[*host.Module]{Close: func(m *host.Module) { m.Close() }, KeepIdle: true, Now: now,
			// A load may fail because of a limit of its tenant, such as its share of the memory.
			Retry: func(error) bool { return true }},
	)
}

// acquire returns a module. It loads the module if the cache does not have it. The load holds a
// slot of the tenant until it has ended, even if the caller stops waiting for it.
func (m *Service) acquire(
	ctx context.Context,
	tenant, digest string,
	limits host.Limits,
) (loaded *host.Module, release func(), err error) {
	ref, err := m.cache.Acquire(ctx, cacheKey{digest, limits}, func(ctx context.Context) (*host.Module, error) {
		done, err := m.admission.Load(ctx, tenant)
		if err != nil {
			return nil, err
		}
		defer done()
		content, err := m.store.Module(ctx, digest)
		if err != nil {
			return nil, err
		}
		return m.host.LoadBytes(ctx, digest+".wasm", content, limits)
	})
	if err != nil {
		return nil, nil, err
	}
	return ref.Value, ref.Release, nil
}

// Compiled reports whether a module is loaded or being loaded, or is in the cache of compiled modules on
// disk. Scripts are not in that cache.
func (m *Service) Compiled(digest string) bool {
	loaded := func(k cacheKey) bool { return k.digest == digest }
	return slices.ContainsFunc(m.cache.Keys(), loaded) || m.host.Loader().Compiled(digest)
}

// CloseIdle closes all modules that no agent uses, and returns their number.
func (m *Service) CloseIdle() int { return m.cache.EvictAll() }

// CloseOld closes modules that no agent has used for a minute, and the least recently used of the
// other unused ones until at most 64 are left (maxIdleModules).
func (m *Service) CloseOld() {
	now := m.now()
	m.cache.Evict(func(idle []refcache.Idle[cacheKey, *host.Module]) []refcache.Idle[cacheKey, *host.Module] {
		for i := range idle {
			if len(idle)-i <= maxIdleModules && now.Sub(idle[i].Since) < idleTTL {
				return idle[:i] // later ones were used more recently
			}
		}
		return idle
	})
}
