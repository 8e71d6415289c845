package sandbox

import (
	"sync"
	"time"
)

// pool holds the state that an image's instances begin in, and instances that
// were put back to it. There is one for each image, so that an instance never
// serves two owners. Instances that faulted, were interrupted, or whose memory
// grew do not come back.
type pool struct {
	budget *budget
	rest   time.Duration // how long an instance is kept unused

	mu     sync.Mutex
	state  *state // nil until the first instance was made; guarded by mu
	idle   []idle // the longest unused first; guarded by mu
	timer  *time.Timer
	closed bool // guarded by mu
}

type idle struct {
	core  *core
	bytes int64 // that it keeps for itself
	since time.Time
}

// budget bounds what all pools of a sandbox keep together, or all images.
type budget struct {
	mu         sync.Mutex
	used, most int64 // used is guarded by mu
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.most {
		return false
	}
	b.used += n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

// take returns the clean instance that was used last, or nil.
func (p *pool) take() *core {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	i := p.idle[last]
	p.idle[last] = idle{}
	p.idle = p.idle[:last]
	p.budget.give(i.bytes)
	return i.core
}

// An instance is retired after so much. It is as clean as on its first day, but
// the pages that became its own stay its own, also if only one user in a
// thousand needed them; and what wazero may keep for it goes too.
const (
	mostUses = 1000
	mostAge  = 10 * time.Minute
)

// put takes back an instance, if it can be cleaned and there is room for it.
func (p *pool) put(c *core) bool {
	if c.uses++; c.uses >= mostUses || time.Since(c.born) >= mostAge {
		return false
	}
	bytes, ok := c.reset()
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || crowded() || !p.budget.take(bytes) {
		return false
	}
	p.idle = append(p.idle, idle{c, bytes, time.Now()})
	if p.timer == nil {
		p.timer = time.AfterFunc(p.rest, p.shrink)
	}
	return true
}

// shrink frees what was not used for a while, and comes back for the rest.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.closed {
		return
	}
	before := time.Now().Add(-p.rest)
	n := 0
	for n < len(p.idle) && !p.idle[n].since.After(before) {
		n++
	}
	p.drop(n)
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(p.idle[0].since.Sub(before), p.shrink)
	}
}

// drop frees the first n. The caller holds mu.
func (p *pool) drop(n int) {
	for _, i := range p.idle[:n] {
		p.budget.give(i.bytes)
		i.core.free()
	}
	p.idle = append([]idle(nil), p.idle[n:]...)
}

// begin returns the state that a new instance begins in, for which the caller is
// counted as a user, or nil.
func (p *pool) begin() *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != nil {
		p.state.retain()
	}
	return p.state
}

// adopt makes s, of which the caller is the one user, the state of the pool,
// unless there is one. It returns the pool's, with the caller as a user.
func (p *pool) adopt(s *state) *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return s
	}
	if p.state != nil {
		s.release()
	} else {
		p.state = s
	}
	p.state.retain()
	return p.state
}

// reset tells how the pool cleans, or nil if it does not know yet.
func (p *pool) peek() pageImage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return nil
	}
	return p.state.pages
}

// close frees what is idle. Instances that are in use go on.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.drop(len(p.idle))
	if p.state != nil {
		p.state.release()
		p.state = nil
	}
}
