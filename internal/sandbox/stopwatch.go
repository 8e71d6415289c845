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

	marks  bool          // there are marks
	thread int           // that it ran on at the last mark; 0: not known
	busy   time.Duration // how much processor time the thread had used then, at most
	marked time.Duration // how long the guest had run then
}

// startWatch starts a watch, which makes marks or does not.
func startWatch(marks bool) stopwatch {
	w := stopwatch{began: time.Now(), running: true, marks: marks}
	w.mark()
	return w
}

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
	if w.running = !w.running; w.running {
		w.mark()
	}
}

// mark notes what the thread has worked so far, at most.
func (w *stopwatch) mark() {
	if !w.marks {
		return
	}
	w.thread, w.busy = threadTimeAtMost()
	w.marked = w.used
}

// worked is how much processor time the guest has used at least since it had run for
// so long, no earlier than at the last mark; 0 if that is not known.
func (w *stopwatch) worked(since time.Duration) time.Duration {
	thread, busy := threadTime()
	if thread == 0 || thread != w.thread { // it went on elsewhere
		return 0
	}
	return busy - w.busy - max(0, since-w.marked)
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
