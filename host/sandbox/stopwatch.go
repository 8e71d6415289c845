package sandbox

import "time"

// mostLap is the most that counts as the guest's between two looks at the watch. A
// slice of fuel, or an import that does not wait, takes less, whatever the guest does:
// what is longer is that the machine, or this process, let others run.
const mostLap = 25 * time.Millisecond

// stopwatch measures the guest's own time in a call.
type stopwatch struct {
	began        time.Time
	used, waited time.Duration // until it was last started, paused or resumed
	since        time.Duration // when that was, after began
	running      bool
}

func startWatch() stopwatch { return stopwatch{began: time.Now(), running: true} }

// now is what has passed since the watch was started. It is asked for at each slice of
// fuel: time.Since takes half as long as time.Now.
func (w *stopwatch) now() time.Duration { return time.Since(w.began) }

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
	w.lap(w.now())
	w.running = !w.running
}

// lap counts what has passed since the last look.
func (w *stopwatch) lap(now time.Duration) {
	passed := now - w.since
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
		w.lap(w.now())
	}
	return w.used
}
