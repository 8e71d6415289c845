// Package overload keeps a process within its memory limits, like Envoy's overload manager. Above
// a first watermark of the limit, the process rejects new work and releases caches. Above a second
// one, it ends the work that holds the most memory, one piece after another, until its usage is
// below that watermark.
//
// It reads the limits and the usage from the operating system, and gets functions that release
// caches and end work. It imports no other package of the project.
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

// Watermarks, as fractions of the limit, and intervals.
const (
	RejectAt = 0.85 // new work is rejected at this pressure
	EvictAt  = 0.95 // work is ended at this pressure
	// New work is accepted again when the pressure has fallen to RejectAt minus hysteresis.
	hysteresis = 0.05

	measureInterval = 100 * time.Millisecond
	// evictInterval is the minimum time between two evictions, so that ended work can return its
	// memory.
	evictInterval = 500 * time.Millisecond
	// freeInterval is the minimum time between two collections that return memory to the
	// system, because each stops the process for some milliseconds.
	freeInterval = 2 * time.Second
	tuneInterval = time.Second
)

// RetryAfter is the time after which clients should retry rejected work.
const RetryAfter = 5 * time.Second

// Options configure a [Manager].
type Options struct {
	// Memory is the operator's limit in bytes. Other limits of the process apply too. If Memory
	// is 0, the operator has set no limit.
	Memory int64
	// Release frees caches. The manager calls it whenever it starts to reject work. It is nil if there are none.
	Release func()
	// Evict ends the unit of work that holds the most memory, and reports whether it found one.
	// If Evict is nil, the manager ends no work.
	Evict func(State) bool
	// TuneGC makes the manager set the Go runtime's memory limit. The limit accounts for the
	// smallest limit of the process and for the memory outside the runtime.
	TuneGC bool
	Logger *slog.Logger
}

// A State describes the use of memory.
type State struct {
	Pressure  float64 // the largest used fraction of a limit
	Limited   string  // name of the limit that has the largest used fraction
	Used      int64   // bytes
	Limit     int64   // bytes
	Rejecting bool    // new work is rejected because memory is short
	Evicting  bool    // work is being ended
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
	alone   bool      // see Isolate
	evicted time.Time // when Evict was last called
	freed   time.Time // when memory was last returned to the system
	tuned   int64     // the Go runtime's limit that was set last
	tunedAt time.Time
}

// New returns a manager, which measures nothing until Watch is called.
func New(o Options) *Manager {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Manager{options: o, gauges: here().gauges(o.Memory), free: debug.FreeOSMemory}
}

// Limit returns the smallest memory limit of the process in bytes, including the operator's
// unless that is 0. It returns 0 if no limit is known.
func Limit(operators int64) int64 {
	limit := int64(0)
	for _, g := range here().gauges(operators) {
		if limit == 0 || g.limit < limit {
			limit = g.limit
		}
	}
	return limit
}

// Watch measures memory every 100 ms, and acts on the result, until ctx is done.
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

// State returns the result of the last measurement.
func (m *Manager) State() State {
	if m == nil {
		return State{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Isolate makes the manager reject new work whatever the memory, until it is called with false.
func (m *Manager) Isolate(alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alone = alone
}

// Rejecting reports whether new work is rejected, because memory is short or because of Isolate.
func (m *Manager) Rejecting() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Rejecting || m.alone
}

// Accept reports whether new work may begin. If not, it counts the work as rejected.
func (m *Manager) Accept() bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Rejecting || m.alone {
		m.state.Rejected++
		return false
	}
	return true
}

// step measures memory once and acts on the result.
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

// measure reads all gauges and updates the state with the one under the highest pressure.
func (m *Manager) measure() State {
	limit := State{}
	for _, g := range m.gauges {
		used, ok := g.used()
		if p := float64(used) / float64(g.limit); ok && p >= limit.Pressure {
			limit.Pressure, limit.Limited, limit.Used, limit.Limit = p, g.name, used, g.limit
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.Pressure, s.Limited, s.Used, s.Limit = limit.Pressure, limit.Limited, limit.Used, limit.Limit
	s.Rejecting = s.Pressure >= RejectAt || s.Rejecting && s.Pressure > RejectAt-hysteresis
	s.Evicting = s.Pressure >= EvictAt
	return *s
}

// minHeap is the minimum memory limit that the manager sets for the Go runtime, in bytes. With a
// lower limit, the runtime would spend nearly all of its time collecting garbage.
const minHeap = 64 << 20

// tune sets the Go runtime's memory limit. It calls goLimit with the process's smallest limit and
// with the resident memory outside the runtime, such as that of modules. It ignores changes of less
// than 5 %.
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

// goLimit returns the Go runtime's memory limit for a process with the given limit, where outside
// is the memory in use outside the runtime. Both are in bytes. If the result is above minHeap, a
// process at that limit is below the watermark RejectAt.
func goLimit(limit, outside int64) int64 {
	return max(minHeap, int64(float64(limit)*(RejectAt-hysteresis))-max(0, outside))
}

// goMemory returns the number of bytes that the Go runtime has obtained from the system and not
// returned.
func goMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()) - int64(s[1].Value.Uint64())
}
