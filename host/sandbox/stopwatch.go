package sandbox

import "time"

// mostLap is the most that counts as the guest's between two looks at the watch. A
// slice of fuel, or an import that does not wait, takes less, whatever the guest does:
// what is longer is that the machine, or this process, let others run.
const mostLap = 25 * time.Millisecond

// stopwatch measures the guest's own time in a call.
type stopwatch struct {
	used, waited time.Duration // until it was last started, paused or resumed
	since        time.Time     // when that was
	running      bool
}

func startWatch() stopwatch { return stopwatch{since: time.Now(), running: true} }

// pause stops the clock; nothing happens if it stands.
func (w *stopwatch) pause() {
	if w.running {
		w.turn()
	}
}

// resume lets it run again; nothing happens if it runs.
func (w *stopwatch) resume() {
	if !w.running {
		w.turn()
	}
}

func (w *stopwatch) turn() {
	w.lap(time.Now())
	w.running = !w.running
}

// lap counts what has passed since the last look.
func (w *stopwatch) lap(now time.Time) {
	passed := now.Sub(w.since)
	w.since = now
	if w.running {
		own := min(passed, mostLap)
		w.used += own
		passed -= own
	}
	w.waited += passed
}

// stop ends the measurement. The watch may stand, after an import was aborted.
func (w *stopwatch) stop() {
	w.turn()
	w.running = false
}

// ran is how long the guest has run so far.
func (w *stopwatch) ran() time.Duration {
	if w.running {
		w.lap(time.Now())
	}
	return w.used
}
