package sandbox

import (
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
)

// pool holds the snapshot that an image's instances start from, and idle instances that were
// reset to it. Each image has its own pool, so that an instance never serves two owners.
// Instances that faulted, were interrupted, or whose memory grew do not return to it.
type pool struct {
	budget  *budget
	timeout time.Duration // time after which an idle instance is closed

	mu       sync.Mutex
	snapshot *image.Snapshot // state of a reset instance; nil until the first was made; guarded by mu
	idle     []idle          // the longest idle first; guarded by mu
	timer    *time.Timer
	closed   bool // guarded by mu
}

type idle struct {
	core  *core
	bytes int64 // bytes that the instance does not share with its snapshot
	since time.Time
}

// budget bounds the memory of the idle instances of all pools of a sandbox.
type budget struct {
	mu        sync.Mutex
	used, max int64 // numbers of bytes in use and allowed; used is guarded by mu
}

// take takes n bytes from the budget. It reports false, and takes none, if fewer are left.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.max {
		return false
	}
	b.used += n
	return true
}

func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

// take returns the most recently used idle instance, or nil.
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
	p.budget.release(i.bytes)
	return i.core
}

// maxUses and maxAge are the number of uses and the age at which an instance is closed and not returned to the pool.
// The instance could be reset, but it keeps wazero's own memory for it and all pages that it has ever written to,
// even if only one use in a thousand needed them.
const (
	maxUses = 1000
	maxAge  = 10 * time.Minute
)

// put resets an instance and returns it to the pool. It reports false, and leaves the instance to the
// caller, if the instance is at maxUses or maxAge or cannot be reset, or if the pool is closed or is
// full.
func (p *pool) put(c *core) bool {
	if c.uses++; c.uses >= maxUses || time.Since(c.created) >= maxAge {
		return false
	}
	bytes, ok := c.reset()
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || image.Crowded() || !p.budget.take(bytes) {
		return false
	}
	p.idle = append(p.idle, idle{c, bytes, time.Now()})
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.shrink)
	}
	return true
}

// shrink closes the instances whose timeout has passed, and schedules itself for the rest.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.closed {
		return
	}
	before := time.Now().Add(-p.timeout)
	n := 0
	for n < len(p.idle) && !p.idle[n].since.After(before) {
		n++
	}
	p.drop(n)
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(p.idle[0].since.Sub(before), p.shrink)
	}
}

// drop closes the first n instances. The caller holds mu.
func (p *pool) drop(n int) {
	for _, i := range p.idle[:n] {
		p.budget.release(i.bytes)
		i.core.close()
	}
	p.idle = append([]idle(nil), p.idle[n:]...)
}

// retainSnapshot returns the snapshot with a reference for the caller, or nil.
func (p *pool) retainSnapshot() *image.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshot != nil {
		p.snapshot.Retain()
	}
	return p.snapshot
}

// adopt makes s, to which the caller has the only reference, the snapshot of the pool, unless the
// pool has one already. It returns the pool's snapshot with a reference for the caller, or s if the
// pool is closed.
func (p *pool) adopt(s *image.Snapshot) *image.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return s
	}
	if p.snapshot != nil {
		s.Release()
	} else {
		p.snapshot = s
	}
	p.snapshot.Retain()
	return p.snapshot
}

// resetInfo describes how the pool resets instances.
func (p *pool) resetInfo() ResetInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshot == nil {
		return ResetInfo{Method: "is known when the first instance was made"}
	}
	return ResetInfo{Method: p.snapshot.Method(), ImageBytes: int64(p.snapshot.Size())}
}

// close closes the idle instances. Instances in use are not affected.
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
	if p.snapshot != nil {
		p.snapshot.Release()
		p.snapshot = nil
	}
}
