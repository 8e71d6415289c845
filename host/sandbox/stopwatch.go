package sandbox

import "time"

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
	now := time.Now()
	spent := &w.waited
	if w.running {
		spent = &w.used
	}
	*spent += now.Sub(w.since)
	w.since, w.running = now, !w.running
}

// stop ends the measurement. The watch may stand, after an import was aborted.
func (w *stopwatch) stop() {
	w.turn()
	w.running = false
}

// ran is how long the guest has run so far.
func (w *stopwatch) ran() time.Duration {
	if !w.running {
		return w.used
	}
	return w.used + time.Since(w.since)
}
