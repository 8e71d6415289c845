// Package overload keeps a process within the memory that it may use, as Envoy's overload
// manager does. Above a first watermark of its limit the process begins no new work and
// releases caches. Above a second one it ends the work that holds the most memory, one
// piece after another, until what it uses is below that watermark again.
package overload

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Watermarks, as parts of the limit, and how often memory is measured.
const (
	RejectAt = 0.85 // new work is rejected from here on
	EvictAt  = 0.95 // work is ended from here on
	// hysteresis is how far pressure falls below RejectAt before work is accepted again.
	hysteresis = 0.05

	measureInterval = 100 * time.Millisecond
	// evictInterval is how long an ended piece of work has to return its memory.
	evictInterval = 500 * time.Millisecond
	// freeInterval is the least time between two collections that return memory to the
	// system: each stops the process for some milliseconds.
	freeInterval = 2 * time.Second
	tuneInterval = time.Second
)

// RetryAfter is what clients are told whose work was rejected.
const RetryAfter = 5 * time.Second

// Options make a Manager.
type Options struct {
	// Memory is the operator's limit, in bytes. Other limits of the process apply
	// besides. None if zero.
	Memory int64
	// Release frees caches; nil if there are none.
	Release func()
	// Evict ends the work that holds the most memory. It reports whether there was
	// some. Nil if there is none.
	Evict func(State) bool
	// TuneGC sets the Go runtime's memory limit from what remains of Memory.
	TuneGC bool
	Logger *slog.Logger
}

// A State says how much memory is used.
type State struct {
	Pressure  float64 // the largest part of a limit that is used; 1 is all of it
	Limited   string  // the name of that limit
	Used      int64   // bytes
	Limit     int64   // bytes
	Rejecting bool    // new work is rejected
	Evicting  bool    // work is ended
	Rejected  int64   // pieces of work, since the process began
	Evicted   int64   // pieces of work, since the process began
}

// A Manager measures memory and acts on it. A nil Manager accepts everything.
type Manager struct {
	options Options
	gauges  []gauge
	free    func()

	mu      sync.Mutex
	state   State
	evicted time.Time // the last time
	freed   time.Time // the last time
	tuned   int64     // the Go runtime's limit that was set last
	tunedAt time.Time
}

// New returns a manager, which measures nothing until Watch is called.
func New(o Options) *Manager {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Manager{options: o, gauges: here().gauges(o.Memory), free: debug.FreeOSMemory}
}

// Limit returns the smallest of the process's limits, 0 if none is known.
func Limit(operators int64) int64 {
	limit := int64(0)
	for _, g := range here().gauges(operators) {
		if limit == 0 || g.limit < limit {
			limit = g.limit
		}
	}
	return limit
}

// Watch measures memory until ctx ends.
func (m *Manager) Watch(ctx context.Context) {
	ticker := time.NewTicker(measureInterval)
	defer ticker.Stop()
	for {
		m.step(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// State returns what was measured last.
func (m *Manager) State() State {
	if m == nil {
		return State{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Accept reports whether new work may begin.
func (m *Manager) Accept() bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Rejecting {
		m.state.Rejected++
	}
	return !m.state.Rejecting
}

// step measures once, and acts on it.
func (m *Manager) step(now time.Time) {
	was := m.State()
	s := m.measure()
	if s.Rejecting != was.Rejecting {
		m.options.Logger.Warn("memory pressure", "rejecting", s.Rejecting, "used", s.Used, "limit", s.Limit, "of", s.Limited)
	}
	if s.Rejecting && !was.Rejecting && m.options.Release != nil {
		m.options.Release()
	}
	if s.Rejecting && now.Sub(m.freed) >= freeInterval {
		m.freed = now
		m.free()
		s = m.measure()
	}
	if s.Evicting && now.Sub(m.evicted) >= evictInterval && m.options.Evict != nil {
		if m.evicted = now; m.options.Evict(s) {
			m.mu.Lock()
			m.state.Evicted++
			m.mu.Unlock()
		}
	}
	if m.options.TuneGC && now.Sub(m.tunedAt) >= tuneInterval {
		m.tunedAt = now
		m.tune()
	}
}

// measure measures all limits, and keeps the one that is used most.
func (m *Manager) measure() State {
	most := State{}
	for _, g := range m.gauges {
		used, ok := g.used()
		if p := float64(used) / float64(g.limit); ok && p >= most.Pressure {
			most.Pressure, most.Limited, most.Used, most.Limit = p, g.name, used, g.limit
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.Pressure, s.Limited, s.Used, s.Limit = most.Pressure, most.Limited, most.Used, most.Limit
	s.Rejecting = s.Pressure >= RejectAt || s.Rejecting && s.Pressure > RejectAt-hysteresis
	s.Evicting = s.Pressure >= EvictAt
	return *s
}

// minHeap is the least limit that the Go runtime is given: below it the runtime would do
// nothing but collect.
const minHeap = 64 << 20

// tune sets the Go runtime's limit to what the smallest limit leaves beside memory that is
// not Go's, such as that of modules.
func (m *Manager) tune() {
	limit := int64(math.MaxInt64)
	for _, g := range m.gauges {
		limit = min(limit, g.limit)
	}
	if limit == math.MaxInt64 {
		return
	}
	resident, ok := here().resident()
	if !ok {
		return
	}
	heap := goLimit(limit, resident-goMemory())
	if d := heap - m.tuned; d > -heap/20 && d < heap/20 {
		return
	}
	m.tuned = heap
	debug.SetMemoryLimit(heap)
}

// goLimit returns the Go runtime's limit of a process that may use limit bytes up to the
// first watermark, and outside of which are not Go's.
func goLimit(limit, outside int64) int64 {
	return max(minHeap, int64(float64(limit)*(RejectAt-hysteresis))-max(0, outside))
}

// goMemory returns how many bytes the Go runtime has from the system.
func goMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()) - int64(s[1].Value.Uint64())
}
