package modules

import (
	"context"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host"
)

// How long a module that nobody makes an agent of stays loaded, and how many of them.
const (
	idleModule  = time.Minute
	idleModules = 64
)

// A shelf has modules that are loaded: their bytes were read, checked and compiled, and
// they have said what they are. All who have the same bytes under the same limits share
// one, from which each makes entries of its own: what it holds is the same for everybody,
// and no instance of it serves a run.
type cache struct {
	load func(ctx context.Context, digest string, limits host.Limits) (*host.Module, error)
	now  func() time.Time

	mu      sync.Mutex
	modules map[cacheKey]*cachedModule
}

type cacheKey struct {
	digest string
	limits host.Limits
}

// A shelved is one of them.
type cachedModule struct {
	made   chan struct{} // closed when it is, or could not be
	module *host.Module
	err    error

	uses int
	idle time.Time // since when nobody uses it
}

func newCache(load func(ctx context.Context, digest string, limits host.Limits) (*host.Module, error), now func() time.Time) *cache {
	return &cache{load: load, now: now, modules: map[cacheKey]*cachedModule{}}
}

// take returns a module, for as long as it is not released.
func (s *cache) take(ctx context.Context, digest string, limits host.Limits) (m *host.Module, release func(), err error) {
	key := cacheKey{digest, limits}
	for {
		s.mu.Lock()
		one := s.modules[key]
		mine := one == nil
		if mine {
			one = &cachedModule{made: make(chan struct{})}
			s.modules[key] = one
			go s.make(context.WithoutCancel(ctx), key, one)
		}
		one.uses++
		s.mu.Unlock()
		release = sync.OnceFunc(func() { s.release(one) })
		select {
		case <-one.made:
		case <-ctx.Done():
			release()
			return nil, nil, context.Cause(ctx)
		}
		if one.err == nil {
			return one.module, release, nil
		}
		if mine {
			return nil, nil, one.err
		}
		// Why another tenant could not load it may be that one's: it has no room left, say.
	}
}

func (s *cache) make(ctx context.Context, key cacheKey, one *cachedModule) {
	m, err := s.load(ctx, key.digest, key.limits)
	s.mu.Lock()
	if one.module, one.err = m, err; err != nil {
		delete(s.modules, key)
	} else if one.uses == 0 {
		one.idle = s.now() // who asked for it has left
	}
	s.mu.Unlock()
	close(one.made)
}

func (s *cache) release(one *cachedModule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.uses--; one.uses == 0 {
		one.idle = s.now()
	}
}

// close closes modules that were not used for so long, and those above most. It returns
// how many.
func (s *cache) close(age time.Duration, most int) int {
	s.mu.Lock()
	var old []*host.Module
	idle := 0
	for key, one := range s.modules {
		if one.uses > 0 || one.module == nil {
			continue
		}
		if idle++; idle > most || s.now().Sub(one.idle) >= age {
			old = append(old, one.module)
			delete(s.modules, key)
		}
	}
	s.mu.Unlock()
	for _, m := range old {
		m.Close()
	}
	return len(old)
}
