package sandbox

import "time"

// stopwatch measures the guest's own time, and calls a function when it is used
// up. All but the timer is used by the goroutine of the call only.
type stopwatch struct {
	used, waited time.Duration
	expired      bool

	limit   time.Duration
	since   time.Time // when it was started, paused or resumed
	running bool
	timer   *time.Timer
}

func (w *stopwatch) start(limit time.Duration, expire func()) {
	*w = stopwatch{limit: limit, since: time.Now(), running: true, timer: time.AfterFunc(limit, expire)}
}

// pause stops the clock; nothing happens if it stands.
func (w *stopwatch) pause() {
	if !w.running {
		return
	}
	now := time.Now()
	w.used += now.Sub(w.since)
	w.since, w.running = now, false
	w.expired = !w.timer.Stop() || w.expired
}

func (w *stopwatch) resume() {
	if w.running {
		return
	}
	now := time.Now()
	w.waited += now.Sub(w.since)
	w.since, w.running = now, true
	if !w.expired {
		w.timer.Reset(max(0, w.limit-w.used))
	}
}

// stop ends the measurement. It may stand paused, after an import was aborted.
func (w *stopwatch) stop() {
	if w.running {
		w.pause()
		return
	}
	w.waited += time.Since(w.since)
}

// over reports whether the time is used up.
func (w *stopwatch) over() bool { return w.used+time.Since(w.since) > w.limit }
