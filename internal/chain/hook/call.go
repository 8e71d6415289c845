package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
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
// while its hook runs. Its methods may be called concurrently. They return an *abi.Error if the
// middleware is to handle the failure, and another error if the run has ended.
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

	scope     string       // distinguishes calls of the hook within a phase, for example by a tool call's id
	weight    int64        // size of the answer, in bytes
	spent     tracing.Cost // resources that the call used, for a tracer
	key       string       // key of the call in the record; empty if the hook translates an event
	tool      *abi.Call    // the tool call in question, if any
	delivered func() bool  // reports whether content of the answer was delivered; nil if that does not matter

	onFault   func(*ending.FaultError)
	stop      func() error
	eventSink func(abi.Event) // receives the call's own events; nil sends them

	held   account.Meter // memory that the host holds for the call
	locals local.Tx
	fault  error // why the input cannot be prepared; nil if it can

	unlabelled []message.RemovedLabels // labels that the answer removes

	shown     []byte
	shownList int

	mu        sync.Mutex
	ending    error
	waited    time.Duration
	nexts     int            // calls of Next and NextStream
	owns      int            // calls of Model and Tool
	same      map[string]int // number of calls of Model and Tool with the same content
	requests  int            // HTTP requests
	emits     int
	sent      int // bytes of custom events
	logs      int
	eventSums []uint64 // hashes of the events that the call sent
}

// Where returns the position in the run: its ids, its step and the time.
func (c *Call) Where() abi.Run { return c.run.Host.Where() }

// Entry returns the name of the entry whose hook is called.
func (c *Call) Entry() string { return c.member.Name }

// OnFault registers fn to receive the fault if the call faults. fn is called at most once, on the
// goroutine of the call, before the fault is reported.
func (c *Control) OnFault(fn func(*ending.FaultError)) { c.onFault = fn }

// Until registers stop, which long host work on the middleware's data calls periodically. The work
// fails with the error that stop returns.
func (c *Control) Until(stop func() error) { c.stop = stop }

// waitFor calls fn. Its time does not count as the hook's. waitFor returns the error of fn, and keeps
// it for [Control.Ending] if it ends or pauses the run.
func (c *Call) waitFor(fn func() error) error {
	began := time.Now()
	err := fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited += time.Since(began)
	if err != nil && ending.Is(err) {
		c.ending = err
	}
	return err
}

// Ending returns the error that ended or paused the run during Next, Recv or a similar call, or nil if
// there was none. With such an error, the answer of the hook does not count.
func (c *Control) Ending() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

// Waited returns the time that the hook has spent in Next, Recv and similar calls.
func (c *Control) Waited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// List returns list n of messages, or nil if the hook has no such list. A Go middleware
// reads messages through it.
func (c *Call) List(n int) *message.List {
	if n < 0 || n >= len(c.lists) {
		return nil
	}
	return c.lists[n]
}

// Shown returns the messages of the hook's input as a JSON array, and the number of their list. It
// returns nil if the middleware does not want messages in its input. The input itself omits the
// messages because their JSON is cached: encoding a long conversation again would dominate the cost
// of a call.
func (c *Control) Shown() (items []byte, list int) { return c.shown, c.shownList }

// list returns list n and the index of the first message that the entry may read.
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

// AppendMessages appends the JSON of messages [from, to) of list n to b; it clamps the bounds. It
// fails if the hook has no list n, if the JSON takes more than limit bytes, or if the entry may not
// read one of the messages.
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

// Changed returns the first index at which list n differs from its revision rev. It fails if the
// hook has no list n.
func (c *Control) Changed(n int, rev int64) (int, error) {
	l, _, err := c.call().list(n)
	if err != nil {
		return 0, err
	}
	return l.Changed(rev), nil
}

// LocalGet returns the run-local value of key. It sees the hook's own writes. ok is false if there
// is no value.
func (c *Call) LocalGet(key string) (v contract.LocalValue, ok bool, err error) {
	return c.locals.Get(key)
}

// LocalSet sets a run-local value to valid JSON and returns its version. With [abi.LocalAlways] the
// write takes effect if the hook succeeds. With any other version it takes effect at once, and
// fails with [abi.CodeConflict] if the value has another version; the version of a missing value is
// 0. LocalSet also fails if the key or value is invalid, if a limit is exceeded, or if a ring
// further out has set the key.
func (c *Call) LocalSet(key string, value json.RawMessage, version int64) (int64, error) {
	return c.locals.Set(key, value, version, c.stop)
}

// LocalDelete deletes a run-local value if the hook succeeds.
func (c *Call) LocalDelete(key string) error { return c.locals.Delete(key) }

// LocalAdd adds delta to a counter at once and returns its new value.
func (c *Call) LocalAdd(key string, delta int64) (int64, error) { return c.locals.Add(key, delta) }

// Emit sends a custom event on behalf of the entry. It blocks while the memory for the run's
// pending events is full; see [Accountant]. In a translation hook it fails instead of blocking. It
// also fails in observe, if the name is invalid, or beyond the limits of one hook call.
func (c *Call) Emit(name string, data json.RawMessage) error {
	c.mu.Lock()
	c.emits++
	n := c.emits
	if len(data) <= maxEmitBytes {
		c.sent += len(data)
	}
	sent := c.sent
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

// Log sends a log event. The level is 0 for debug, 1 for info, 2 for warn and 3 for error. It
// blocks as Emit does. It truncates long lines, and drops lines beyond the limit of a hook call or
// for which there is no memory.
func (c *Call) Log(level int32, text string) {
	c.mu.Lock()
	c.logs++
	n := c.logs
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

// Warn logs a warning as Log does, but once per run for each entry, hook and text: a mistake that
// a hook repeats would fill the log. It drops warnings beyond maxWarnings of an entry.
func (c *Control) Warn(text string) {
	if c.member.firstWarning(record.EventSum(&abi.Event{Name: string(c.Hook), Text: text})) {
		c.Log(contract.LogWarn, text)
	}
}

// publish sends an event of this call.
func (c *Call) publish(e abi.Event) {
	if c.eventSink != nil {
		c.eventSink(e)
		return
	}
	c.run.Send(e)
}

// send sends an event of this call unless an earlier pass through the phase sent it.
func (c *Call) send(e abi.Event) {
	if c.key == "" {
		c.publish(e)
		return
	}
	sum, nth := record.EventSum(&e), 1
	c.mu.Lock()
	for _, eventSums := range c.eventSums {
		if eventSums == sum {
			nth++
		}
	}
	c.eventSums = append(c.eventSums, sum)
	c.mu.Unlock()
	c.run.keeping.RLock() // persist the event together with the note that it was sent
	defer c.run.keeping.RUnlock()
	if !c.run.Record.WasSent(c.key, sum, nth) {
		c.publish(e)
	}
}

// denied returns an [*abi.Error] with the code [abi.CodeDenied].
func denied(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// Weigh sets the size of the hook's answer in bytes. Sessions of middlewares that return their answers
// as bytes call it.
func (c *Control) Weigh(bytes int64) { c.weight = bytes }
