package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Limits of one hook call.
const (
	maxNext      = 64        // calls of next and next_stream together
	maxEmits     = 256       // custom events
	maxEmitBytes = 256 << 10 // for one custom event
	maxEmitted   = 2 << 20   // for all custom events together
	maxLogs      = 256       // log lines
	maxLogBytes  = 8 << 10   // for one log line; longer ones are truncated
)

// A Call is one hook call as the middleware sees it: the requests that it can make to the host
// while its hook runs. Its methods may be called concurrently. An *abi.Error is an error that the
// middleware can handle. Any other error means that the run has ended or paused.
type Call struct {
	Hook abi.Hook

	run    *Run
	ctx    context.Context // the hook's context
	member *Member
	lists  [2]*message.List
	next   func(ctx context.Context, patch any) (any, error)
	open   func(ctx context.Context, patch any) error                      // serves next_stream
	recv   func(ctx context.Context, limit int) (contract.Received, error) // serves recv; limit is in bytes
	sender func(ctx context.Context, chunks []abi.Chunk) error             // serves send

	scope     string       // distinguishes calls of the hook within a phase, for example by the tool call's ID
	weight    int64        // size of the answer, in bytes
	spent     tracing.Cost // resources that the call used, for a tracer
	key       string       // key of the call in the record; empty if the hook translates an event
	tool      *abi.Call    // the tool call for which the hook is called; nil if there is none
	delivered func() bool  // reports whether content of the answer was delivered; nil if that does not affect the hook

	onFault   func(*ending.FaultError)
	stop      func() error
	eventSink func(abi.Event) // receives the call's own events; nil sends them

	held   account.Meter // memory of the host for the call
	locals local.Tx
	fault  error // why the input cannot be prepared; nil if it can

	edited *message.Editor // of the answer's patch of the run's messages; nil if there is none

	shown     []byte
	shownList int32

	waited atomic.Int64          // nanoseconds in waitFor
	ending atomic.Pointer[error] // the error that ended or paused the run during a host call

	nexts  int32 // calls of Next and NextStream
	mu     sync.Mutex
	active *activity // what the call did so far; nil until it does something that activity counts
}

// An activity counts what few hook calls do. It is not part of Call, which stays small without it.
type activity struct {
	owns      int            // calls of Model and Tool
	same      map[string]int // number of calls of Model and Tool with the same content
	requests  int            // HTTP requests
	emits     int
	sent      int // bytes of custom events
	logs      int
	eventSums []uint64 // hashes of the events that the call sent
}

// activity returns the activity of the call, which it creates if necessary. The caller holds the lock.
func (c *Call) activity() *activity {
	if c.active == nil {
		c.active = &activity{}
	}
	return c.active
}

// Where returns the current position in the run: IDs, step and time.
func (c *Call) Where() abi.Run { return c.run.Host.Where() }

// Entry returns the name of the entry whose hook is called.
func (c *Call) Entry() string { return c.member.Name }

// OnFault registers fn to receive the fault if the call faults. fn is called at most once, on the
// goroutine of the call, before the fault is reported.
func (c *Control) OnFault(fn func(*ending.FaultError)) { c.onFault = fn }

// Until registers stop. Long work of the host on the middleware's data calls stop periodically, and
// fails with the error that stop returns.
func (c *Control) Until(stop func() error) { c.stop = stop }

// waitFor calls fn and returns its error. The time does not count as the hook's. If the error ends
// or pauses the run, [Control.Ending] returns it.
func (c *Call) waitFor(fn func() error) error {
	began := time.Now()
	err := fn()
	c.waited.Add(int64(time.Since(began)))
	if err != nil && ending.Is(err) {
		ended := err
		c.ending.Store(&ended)
	}
	return err
}

// Ending returns the error that ended or paused the run during a host call of the hook, such as
// Next or Recv, or nil if there was none. If there was one, the host ignores the hook's answer.
func (c *Control) Ending() error {
	if ended := c.ending.Load(); ended != nil {
		return *ended
	}
	return nil
}

// Waited returns the time that the hook has spent in host calls that wait, such as Next and Recv.
func (c *Control) Waited() time.Duration { return time.Duration(c.waited.Load()) }

// List returns list n of messages, or nil if the hook has no such list. Go middlewares read
// messages with it. It ignores the entry's Read.
func (c *Call) List(n int) *message.List {
	if n < 0 || n >= len(c.lists) {
		return nil
	}
	return c.lists[n]
}

// Shown returns the messages of the hook's input as a JSON array, and the number of their list.
// items is nil if the middleware does not want messages in its input. The JSON is separate from the
// input because it is cached: encoding a long conversation again would dominate the cost of a call.
func (c *Control) Shown() (items []byte, list int) { return c.shown, int(c.shownList) }

// list returns list n and the index of the first message that the entry may read. It returns an
// error if the hook has no list n.
func (c *Call) list(n int) (l *message.List, first int, err error) {
	if n < 0 || n >= len(c.lists) || c.lists[n] == nil {
		return nil, 0, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s has no list %d of messages", c.Hook, n)}
	}
	l = c.lists[n]
	switch c.member.Read {
	case ReadNone:
		return l, l.Len(), nil
	case ReadLast:
		return l, max(0, l.Len()-1), nil
	default:
		return l, 0, nil
	}
}

// AppendMessages appends messages [from, to) of list n to b as a JSON array. It clamps the bounds
// to the list. It returns an error if the hook has no list n, if the JSON takes more than limit
// bytes, or if the entry may not read one of the messages.
func (c *Control) AppendMessages(b []byte, n, from, to, limit int) ([]byte, error) {
	l, first, err := c.call().list(n)
	if err != nil {
		return nil, err
	}
	from, to = max(0, min(from, l.Len())), max(0, min(to, l.Len()))
	if from < to && from < first {
		return nil, denied("with the grant read:%s, this entry can read the messages from index %d on", c.member.Read, first)
	}
	b, ok := l.AppendJSON(b, from, to, limit, c.member.desc.Labels)
	if !ok {
		return nil, &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("messages %d to %d take more than %d bytes; ask for fewer at once", from, to, limit),
		}
	}
	return b, nil
}

// Changed returns the first index at which list n differs from its revision rev. It returns an
// error if the hook has no list n.
func (c *Control) Changed(n int, rev int64) (int, error) {
	l, _, err := c.call().list(n)
	if err != nil {
		return 0, err
	}
	return l.Changed(rev), nil
}

// LocalGet returns the run-local value of key, including the hook's own writes. ok is false if
// there is no value. The error is an *abi.Error for an invalid key.
func (c *Call) LocalGet(key string) (v contract.LocalValue, ok bool, err error) {
	return c.locals.Get(key)
}

// LocalSet sets a run-local value to valid JSON and returns the new version. With
// [abi.LocalAlways], the write takes effect if the hook succeeds. With any other version, it takes
// effect at once, and fails with [abi.CodeConflict] if the value has another version. A missing
// value has version 0. LocalSet also returns an error if the key or value is invalid, if a limit is
// exceeded, or if a ring further out has set the key.
func (c *Call) LocalSet(key string, value json.RawMessage, version int64) (int64, error) {
	return c.locals.Set(key, value, version, c.stop)
}

// LocalDelete deletes a run-local value. The deletion takes effect if the hook succeeds.
func (c *Call) LocalDelete(key string) error { return c.locals.Delete(key) }

// LocalAdd adds delta to a counter and returns the sum. The addition takes effect at once.
func (c *Call) LocalAdd(key string, delta int64) (int64, error) { return c.locals.Add(key, delta) }

// Emit sends a custom event of the entry. It waits while the memory for the run's pending events is
// full; see [Accountant]. It returns an *abi.Error in observe, for an invalid name, and beyond 256
// events, 256 KiB in one event or 2 MiB in all events of a hook call. In a hook that translates
// events, it also returns an error instead of waiting.
func (c *Call) Emit(name string, data json.RawMessage) error {
	c.mu.Lock()
	did := c.activity()
	did.emits++
	n := did.emits
	if len(data) <= maxEmitBytes {
		did.sent += len(data)
	}
	sent := did.sent
	c.mu.Unlock()
	switch {
	case c.Hook == contract.HookObserve:
		return denied("an observer cannot emit events")
	case name == "" || len(name) > contract.MaxName || name != safetext.Clean(name):
		return &abi.Error{
			Code:    abi.CodeInvalid,
			Message: fmt.Sprintf("an event needs a name of 1 to %d bytes without control characters", contract.MaxName),
		}
	case len(data) > maxEmitBytes || n > maxEmits || sent > maxEmitted:
		return &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("a hook may emit %d events of %d bytes each, %d together", maxEmits, maxEmitBytes, maxEmitted),
		}
	}
	if err := c.awaitMemory("emit", len(data)); err != nil {
		return err
	}
	c.send(abi.Event{Type: abi.EventCustom, Entry: c.member.Name, Hook: c.Hook, Name: name, Data: jsoncodec.Clone(data)})
	return nil
}

// Log sends a log event. level is 0 for debug, 1 for info, 2 for warn and 3 for error. Log waits
// for memory like Emit. It truncates text after 8 KiB. It drops lines after the first 256 of a hook
// call, and lines for which there is no memory.
func (c *Call) Log(level int32, text string) {
	c.mu.Lock()
	did := c.activity()
	did.logs++
	n := did.logs
	c.mu.Unlock()
	switch {
	case n == maxLogs+1:
		level, text = contract.LogWarn, fmt.Sprintf("further log lines of this hook are dropped: more than %d", maxLogs)
	case n > maxLogs:
		return
	default:
		text = safetext.Clip(text, maxLogBytes)
	}
	if c.ctx != nil && c.awaitMemory("log", len(text)) != nil {
		return
	}
	e := abi.Event{Type: abi.EventLog, Entry: c.member.Name, Hook: c.Hook, Level: contract.LogLevel(level), Text: text}
	if c.Hook == contract.HookObserve {
		c.run.Host.Send(e) // not sent to observers, which could log again for each log event without end
		return
	}
	c.send(e)
}

// Warn logs a warning like Log, but only once per run for each entry, hook and text, so that a
// repeated mistake does not fill the log. It drops warnings after the first maxWarnings of an
// entry.
func (c *Control) Warn(text string) {
	if c.member.firstWarning(record.EventSum(&abi.Event{Name: string(c.Hook), Text: text})) {
		c.Log(contract.LogWarn, text)
	}
}

// publish sends an event of this call to the run, or to the sink that Divert set.
func (c *Call) publish(e abi.Event) {
	if c.eventSink != nil {
		c.eventSink(e)
		return
	}
	c.run.Send(e)
}

// send publishes an event of this call, unless an earlier pass through the phase did.
func (c *Call) send(e abi.Event) {
	if c.key == "" {
		c.publish(e)
		return
	}
	sum, nth := record.EventSum(&e), 1
	c.mu.Lock()
	did := c.activity()
	for _, sent := range did.eventSums {
		if sent == sum {
			nth++
		}
	}
	did.eventSums = append(did.eventSums, sum)
	c.mu.Unlock()
	c.run.keeping.RLock() // persist the event together with the fact that it was sent
	defer c.run.keeping.RUnlock()
	if !c.run.Record.WasSent(c.key, sum, nth) {
		c.publish(e)
	}
}

// denied returns an [*abi.Error] with the code [abi.CodeDenied] and a formatted message.
func denied(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// Weigh sets the size of the hook's answer in bytes. A session calls it if its middleware returns
// answers as bytes.
func (c *Control) Weigh(bytes int64) { c.weight = bytes }
