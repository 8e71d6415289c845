package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// room is how many bytes are allocated at least before Go collects its garbage again.
// Left to itself it waits for as many as are in use, which in a server that is young are
// so few that it collects ten times a second, for 8 ms each.
const room = 128 << 20

// A pacer sets how soon Go collects garbage, after each time that it did.
type pacer struct {
	mu      sync.Mutex
	percent int // as set last
	ended   bool
}

// collectLater lets Go collect garbage no sooner than after room was allocated, until
// end. Where somebody has set GOGC or GOMEMLIMIT these hold.
func collectLater(getenv func(string) string) (end func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	p := &pacer{percent: 100}
	p.collected()
	return p.end
}

// collected is called after each collection.
func (p *pacer) collected() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	// To set it stops everything for a moment.
	if percent := percentFor(live[0].Value.Uint64()); percent < p.percent*4/5 || percent > p.percent*5/4 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new([64]byte), (*pacer).collected, p) // garbage that the next collection finds
}

// end has garbage collected as soon as Go does by itself; twice is once.
func (p *pacer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		debug.SetGCPercent(100)
	}
	p.ended = true
}

// percentFor is by how many percent of what is in use, in bytes, the heap may grow.
func percentFor(live uint64) int {
	const least = 4 << 20 // the heap that Go begins with
	return int(max(100, 100*room/max(live, least)))
}
