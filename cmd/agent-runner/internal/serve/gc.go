package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// minHeapGrowth is the minimum number of bytes allocated between garbage collections.
// By default, Go collects when the heap has doubled. The small heap of a new server
// doubles ten times a second, and each collection takes 8 ms.
const minHeapGrowth = 128 << 20

// A gcTuner adjusts GOGC after each garbage collection.
type gcTuner struct {
	mu      sync.Mutex
	percent int // the GOGC value set last
	ended   bool
}

// collectLater makes Go allocate at least minHeapGrowth bytes between garbage collections, until
// end is called. It does nothing if GOGC or GOMEMLIMIT is set.
func collectLater(getenv func(string) string) (end func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	p := &gcTuner{percent: 100}
	p.collected()
	return p.end
}

// collected sets GOGC for the next cycle. It runs after each collection.
func (p *gcTuner) collected() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	// SetGCPercent stops the world, so ignore small differences.
	if percent := percentFor(live[0].Value.Uint64()); percent < p.percent*4/5 || percent > p.percent*5/4 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new([64]byte), (*gcTuner).collected, p) // runs after the next collection
}

// end restores the default GOGC. It may be called more than once.
func (p *gcTuner) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		debug.SetGCPercent(100)
	}
	p.ended = true
}

// percentFor returns the GOGC value for a live heap of the given bytes.
func percentFor(live uint64) int {
	const minHeap = 4 << 20 // Go's minimum heap
	return int(max(100, 100*minHeapGrowth/max(live, minHeap)))
}
