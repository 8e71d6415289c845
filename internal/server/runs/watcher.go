package runs

import (
	"bytes"

	"github.com/agent-runner/agent-runner/internal/server/sse"
)

// A watcher sends the activity of a run to a stream. The run may be in progress here or on another
// server. A nil watcher sends nothing.
type watcher struct {
	runs        *Service
	tenant, run string

	from   *feed // where the frames come from; nil before the first call of send
	here   *activity
	number int64 // of the last frame that was sent
	leave  func()
}

// send sends the newest frame if the stream does not have it. more is closed when the next frame arrives;
// it is nil if w or s is nil.
func (w *watcher) send(s *sse.Stream) (more <-chan struct{}) {
	if w == nil || s == nil {
		return nil
	}
	w.locate()
	frame, number, more := w.from.since(w.number)
	if w.number = number; frame != nil && !bytes.ContainsAny(frame, "\r\n") {
		s.Send([]byte("event: activity\ndata: "), frame, []byte("\n\n"))
	}
	return more
}

// locate sets the feed of the run. The feed changes when the run begins or ends on this server.
func (w *watcher) locate() {
	var here *activity
	if l := w.runs.Active.Get(w.tenant, w.run); l != nil {
		here = l.activity
	}
	if w.from != nil && w.here == here {
		return
	}
	w.close()
	w.here, w.number = here, 0
	if here != nil {
		w.from, w.leave = &here.feed, here.watch()
		return
	}
	w.from = &feed{}
	w.leave = w.runs.polls.ask(w.run, topicWatch, topicActive, w.from.put)
}

// close releases the feed.
func (w *watcher) close() {
	if w.leave != nil {
		w.leave()
		w.leave = nil
	}
}
