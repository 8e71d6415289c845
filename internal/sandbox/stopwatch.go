package sandbox

import "time"

// maxAdvance is the maximum time between two readings that counts as the guest's. A slice of
// fuel, or an import that does not wait, takes less, whatever the guest does. If one
// takes longer, the machine or this process has run something else meanwhile.
const maxAdvance = 25 * time.Millisecond

// stopwatch measures the guest's own time in a call.
type stopwatch struct {
	began        time.Time
	used, waited time.Duration // the guest's running time, and the time in which it waited, until since
	since        time.Duration // time of the last start, pause, resume or reading, as the time after began
	running      bool

	marks  bool          // whether mark records the processor time
	thread int           // the thread when mark was last called; 0 if unknown
	busy   time.Duration // upper bound of the thread's processor time when mark was last called
	marked time.Duration // the guest's running time when mark was last called
}

// startWatch returns a running watch. If marks is true, mark is called now and whenever the watch
// resumes, so that worked can measure processor time.
func startWatch(marks bool) stopwatch {
	w := stopwatch{began: time.Now(), running: true, marks: marks}
	w.mark()
	return w
}

// now returns the time since the start. It is read at each slice of fuel, and time.Since
// takes half the time of time.Now.
func (w *stopwatch) now() time.Duration { return time.Since(w.began) }

// pause stops the watch. It has no effect if the watch is paused.
func (w *stopwatch) pause() {
	if w.running {
		w.toggle()
	}
}

// resume continues the watch. It has no effect if the watch is running.
func (w *stopwatch) resume() {
	if !w.running {
		w.toggle()
	}
}

func (w *stopwatch) toggle() {
	w.advance(w.now())
	if w.running = !w.running; w.running {
		w.mark()
	}
}

// mark records the current thread and its processor time for worked. It does nothing unless w.marks
// is set, because reading the processor time is slow.
func (w *stopwatch) mark() {
	if !w.marks {
		return
	}
	w.thread, w.busy = threadTimeAtMost()
	w.marked = w.used
}

// worked returns a lower bound of the processor time that the guest has used since the moment at
// which ran returned since. The last call of mark must not be later than this moment. worked
// returns 0 if the processor time is unknown.
func (w *stopwatch) worked(since time.Duration) time.Duration {
	thread, busy := threadTime()
	if thread == 0 || thread != w.thread { // the goroutine continued on another thread
		return 0
	}
	return busy - w.busy - max(0, since-w.marked)
}

// advance counts the time since the last reading. If the watch is running, up to maxAdvance of it
// counts as the guest's. The rest counts as waiting.
func (w *stopwatch) advance(now time.Duration) {
	passed := now - w.since
	w.since = now
	if w.running {
		own := min(passed, maxAdvance)
		w.used += own
		passed -= own
	}
	w.waited += passed
}

// stop ends the measurement. It also works on a paused watch, because an aborted import leaves the
// watch paused.
func (w *stopwatch) stop() {
	w.toggle()
	w.running = false
}

// ran returns the guest's running time so far.
func (w *stopwatch) ran() time.Duration {
	if w.running {
		w.advance(w.now())
	}
	return w.used
}
