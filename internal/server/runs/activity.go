package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/server/sse"
)

const (
	// activityInterval is the minimum time between two frames of a run's activity. The next frame
	// includes all changes since the last one.
	activityInterval = 250 * time.Millisecond
	// maxActiveModules limits the modules of an activity. Others are not shown.
	maxActiveModules = 64
)

type activityKey struct{}

// withActivity returns a context for a run whose hooks the tracer of [Activities] reports to a.
func withActivity(ctx context.Context, a *activity) context.Context {
	return context.WithValue(ctx, activityKey{}, a)
}

// Activities returns a tracer that sends the activity of a run's modules to clients that watch the
// run. It adds less than a microsecond to a hook, and never waits for these clients.
func Activities() tracing.Tracer { return activities{} }

type activities struct{}

// Start implements [tracing.Tracer].
func (activities) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	a, _ := ctx.Value(activityKey{}).(*activity)
	if a == nil || op.Kind != tracing.OperationHook {
		return ctx, func(tracing.Outcome) {}
	}
	began := time.Now()
	m := a.begin(&op, began)
	if m == nil {
		return ctx, func(tracing.Outcome) {}
	}
	return ctx, func(o tracing.Outcome) { a.end(m, &o, time.Since(began)) }
}

// An activity records the work of the modules of a run in progress, for clients that watch the run.
// It makes frames, which are snapshots in JSON, only while there are watchers. A slow watcher misses
// frames.
type activity struct {
	run  string
	hide *Redactor
	feed feed

	mu       sync.Mutex
	modules  []*api.ModuleActivity
	watchers int
	remote   time.Time          // frames are published until this time
	publish  func(frame []byte) // sends a frame to other servers; nil until one has asked
	pending  bool               // a frame will be made
}

func newActivity(run string, hide *Redactor) *activity { return &activity{run: run, hide: hide} }

// begin records the call of a hook. It returns nil if the entry is not shown.
func (a *activity) begin(op *tracing.Operation, now time.Time) *api.ModuleActivity {
	if a.hide.Has(op.Run.Agent, op.Entry) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.module(op.Run.Agent, op.Entry)
	if m == nil {
		return nil
	}
	m.Hook, m.SinceMS = string(op.Hook), now.UnixMilli()
	m.Running++
	a.touch()
	return m
}

// module returns the record of an agent's entry, or nil if there are too many entries. The caller
// holds mu.
func (a *activity) module(agent, entry string) *api.ModuleActivity {
	for _, m := range a.modules {
		if m.Entry == entry && m.Agent == agent {
			return m
		}
	}
	if len(a.modules) == maxActiveModules {
		return nil
	}
	m := &api.ModuleActivity{Entry: entry, Agent: agent}
	a.modules = append(a.modules, m)
	return m
}

// end records the end of a call for which begin returned m.
func (a *activity) end(m *api.ModuleActivity, o *tracing.Outcome, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.Running--
	m.Calls++
	m.LastUS = max(0, (took - o.Waited).Microseconds())
	m.OwnUS += m.LastUS
	m.Fuel += o.Fuel
	m.MemoryBytes = max(m.MemoryBytes, o.Memory)
	if o.Failed != nil {
		m.Failed++
	}
	if o.Fault {
		m.Faults++
	}
	a.touch()
}

// touch makes a frame after activityInterval if there are watchers. The caller holds mu.
func (a *activity) touch() {
	if a.pending || a.watchers == 0 && !a.asked() {
		return
	}
	a.pending = true
	time.AfterFunc(activityInterval, a.flush)
}

// asked reports whether another server has asked for the activity within followTTL. The caller holds
// mu.
func (a *activity) asked() bool { return a.publish != nil && time.Now().Before(a.remote) }

// flush makes a frame for the watchers here and, if another server has asked for it, on other
// servers.
func (a *activity) flush() {
	a.mu.Lock()
	a.pending = false
	var publish func([]byte)
	if a.asked() {
		publish = a.publish
	}
	shown := api.RunActivity{
		Run:     a.run,
		TimeMS:  time.Now().UnixMilli(),
		Modules: make([]api.ModuleActivity, len(a.modules)),
	}
	for i, m := range a.modules {
		shown.Modules[i] = *m
	}
	a.mu.Unlock()
	frame, err := json.Marshal(shown)
	if err != nil {
		return
	}
	a.feed.put(frame)
	if publish != nil {
		publish(frame)
	}
}

// watch counts a watcher until it calls leave. It makes a first frame.
func (a *activity) watch() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers++
	a.touch()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.watchers--
	}
}

// ask makes the activity publish frames for the time followTTL.
func (a *activity) ask(publish func(frame []byte)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.asked()
	a.publish, a.remote = publish, time.Now().Add(followTTL)
	if first {
		a.touch()
	}
}

// sendActivity sends the activity of a run to the server that has asked for it. Frames that exceed the size
// of a hint are dropped.
func (r *Service) sendActivity(l *ActiveRun) {
	limit := r.options.Hints.MaxBytes()
	l.activity.ask(func(frame []byte) {
		if len(frame) <= limit {
			r.hint(topicActive+l.ID, frame)
		}
	})
}

// A feed holds the newest frame, for any number of readers. The zero value has none.
type feed struct {
	mu      sync.Mutex
	frame   []byte
	number  int64         // of the frame, starting at 1
	changed chan struct{} // closed by the next frame; nil if nobody waits
}

// put replaces the frame.
func (f *feed) put(frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frame = frame
	f.number++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// since returns the newest frame and its number, or no frame if number is that of the newest one, and a
// channel that is closed by the next frame.
func (f *feed) since(number int64) (frame []byte, newest int64, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	if f.number == number {
		return nil, number, f.changed
	}
	return f.frame, f.number, f.changed
}

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
