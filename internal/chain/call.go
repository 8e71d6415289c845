package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// Limits of one hook call.
const (
	maxNext      = 64        // calls of next
	maxEmits     = 256       // custom events
	maxEmitBytes = 256 << 10 // of one custom event
	maxEmitted   = 2 << 20   // of all of them
	maxLogs      = 256       // log lines
	maxLogBytes  = 8 << 10   // of one log line; longer ones are cut
)

// A Call is the host's side of one hook call: what a middleware can ask for
// while its hook runs. Its methods return *abi.Error where the middleware is
// to see the failure, and an ending where the run is over.
type Call struct {
	Hook abi.Hook

	run    *Run
	ctx    context.Context // of the hook
	member *member
	lists  [2]*List
	next   func(ctx context.Context, patch any) (any, error)
	open   func(ctx context.Context, patch any) error                // of next_stream
	recv   func(ctx context.Context, most int) (abi.Received, error) // at most that many bytes
	hand   func(ctx context.Context, chunks []abi.Chunk) error       // of send

	scope     string              // what tells it from other calls of the hook in the phase: a tool call's id
	weight    int64               // of the answer, bytes
	spent     Spent               // for a tracer
	key       string              // in the record
	tool      *abi.Call           // that it is about, if it is
	delivered func() bool         // whether content of the answer has been; nil: it does not matter
	asks      *abi.GateToolAnswer // of a gate that asks somebody

	onFault func(*Fault)
	stop    func() error
	divert  func(abi.Event) // takes the call's own events; nil: they are sent

	held  account.Meter // what the host holds for the call
	fault error         // of a call that cannot be given its input

	shown     []byte
	shownList int

	mu     sync.Mutex
	ending error
	staged []localWrite
	// touched are the run-local values that the call has changed.
	touched  touches
	waited   time.Duration
	nexts    int            // of both kinds
	owns     int            // calls of Model and Tool
	same     map[string]int // of them, those of the same
	requests int            // of HTTP
	emits    int
	sent     int // bytes of custom events
	logs     int
	told     []uint64 // the sums of its events
}

// Where says where in the run it is.
func (c *Call) Where() abi.Run { return c.run.host.Where() }

// Entry is the name of the entry that is called.
func (c *Call) Entry() string { return c.member.Name }

// OnFault lets fn hear of it if the call turns out to be a fault, be it by what
// the middleware did or by what it answered. fn gets the whole fault, before
// anybody else does. It is called at most once, on the goroutine of the call.
func (c *Call) OnFault(fn func(*Fault)) { c.onFault = fn }

// Until lets stop be asked now and then while the call works for long on what the
// middleware has handed to it. That fails with the error that stop gives, if any.
func (c *Call) Until(stop func() error) { c.stop = stop }

// Next runs what the hook wraps, with a patch of the request: a
// *abi.RequestPatch in wrap_model, answered by an *abi.Response, a
// *abi.CallPatch in wrap_tool_call, answered by an *abi.Result.
func (c *Call) Next(ctx context.Context, patch any) (any, error) {
	if c.next == nil {
		return nil, denied("next is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	if err := c.countNext(); err != nil {
		return nil, err
	}
	var reply any
	err := c.waitFor(func() (err error) {
		reply, err = c.next(ctx, patch)
		return err
	})
	return reply, err
}

// waitFor calls fn, whose time is not the hook's, and whose ending is.
func (c *Call) waitFor(fn func() error) error {
	began := time.Now()
	err := fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited += time.Since(began)
	if err != nil && IsEnding(err) {
		c.ending = err
	}
	return err
}

// Ending is the ending that a call of Next, Recv or their like met, if one did: whatever the
// hook answers now is void.
func (c *Call) Ending() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

// Waited is the time that the hook has spent in Next, Recv and their like.
func (c *Call) Waited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// List returns list n itself, for native middlewares; nil if the hook has no
// such list.
func (c *Call) List(n int) *List {
	if n < 0 || n >= len(c.lists) {
		return nil
	}
	return c.lists[n]
}

// Shown returns the messages that belong into the hook's input as the items of
// a list, a JSON array, and which list that is; nil if the middleware does not
// want to be shown messages. They are not in the input itself, since their JSON
// is known already: encoding it once more is what a long conversation would
// cost most.
func (c *Call) Shown() (items []byte, list int) { return c.shown, c.shownList }

// list returns list n as the entry may read it: visible from index first on.
func (c *Call) list(n int) (l *List, first int, err error) {
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

// Messages returns messages from up to, not including, to of a list, as JSON
// of at most limit bytes.
func (c *Call) Messages(n, from, to, limit int) ([]byte, error) {
	return c.AppendMessages(nil, n, from, to, limit)
}

// AppendMessages is Messages behind b.
func (c *Call) AppendMessages(b []byte, n, from, to, limit int) ([]byte, error) {
	l, first, err := c.list(n)
	if err != nil {
		return nil, err
	}
	from, to = max(0, min(from, l.Len())), max(0, min(to, l.Len()))
	if from < to && from < first {
		return nil, denied("this module may read %q of the messages, from index %d on", c.member.Read, first)
	}
	b, ok := l.appendJSON(b, from, to, limit)
	if !ok {
		return nil, &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("messages %d to %d take more than %d bytes; ask for fewer at once", from, to, limit)}
	}
	return b, nil
}

// Changed returns the first index at which a list differs from revision rev.
func (c *Call) Changed(n int, rev int64) (int, error) {
	l, _, err := c.list(n)
	if err != nil {
		return 0, err
	}
	return l.Changed(rev), nil
}

// LocalGet returns a run-local value; ok is false if there is none.
func (c *Call) LocalGet(key string) (v abi.LocalValue, ok bool, err error) {
	if err := checkKey(key); err != nil {
		return v, false, err
	}
	if w, ok := c.waiting(key); ok {
		return abi.LocalValue{Value: w.value, Version: w.version}, !w.delete, nil
	}
	have, ok := c.run.locals.get(c.member, key)
	return abi.LocalValue{Value: have.Value, Version: have.Version}, ok, nil
}

// waiting returns the last write to key that waits for the hook to succeed.
func (c *Call) waiting(key string) (localWrite, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range slices.Backward(c.staged) {
		if w.key == key {
			return w, true
		}
	}
	return localWrite{}, false
}

// LocalSet sets a run-local value to valid JSON. With abi.LocalAlways it
// waits for the hook to succeed, with a version it takes effect at once.
func (c *Call) LocalSet(key string, value json.RawMessage, version int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	// Reject first what needs neither reading nor copying the value: both take milliseconds for 4 MB.
	if err := c.checkLocalSet(key, value, version); err != nil {
		return 0, err
	}
	if err := abi.ValidUntil(value, c.stop); err != nil {
		return 0, &abi.Error{Code: abi.CodeInvalid, Message: "the value of run-local key " + key + " is not JSON: " + err.Error()}
	}
	value, err := abi.CloneUntil(value, c.stop)
	if err != nil {
		return 0, err
	}
	if version == abi.LocalAlways {
		return c.stage(localWrite{key: key, value: value})
	}
	if err := c.flush(key); err != nil {
		return 0, err
	}
	c.touch(key, 0)
	return c.run.locals.set(c.member, key, value, version)
}

// checkLocalSet returns the error of a LocalSet that exceeds a limit or has an outdated version.
// The write itself checks both again, since other calls may write in between.
func (c *Call) checkLocalSet(key string, value json.RawMessage, version int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version == abi.LocalAlways {
		return c.checkStaged(key, value)
	}
	if len(key)+len(value) > maxLocalBytes {
		return errLocalsFull()
	}
	for _, w := range c.staged {
		if w.key == key {
			return nil // LocalSet writes it first, which changes the version
		}
	}
	return c.run.locals.checkSet(c.member, key, version)
}

// LocalDelete deletes a run-local value once the hook has succeeded.
func (c *Call) LocalDelete(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := c.stage(localWrite{key: key, delete: true})
	return err
}

func (c *Call) stage(w localWrite) (version int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkStaged(w.key, w.value); err != nil {
		return 0, err
	}
	if err := c.held.Add(w.size()); err != nil {
		return 0, memoryError("run-local values", err)
	}
	if w.version, err = c.run.locals.reserve(c.member, w.key); err != nil {
		return 0, err
	}
	if w.delete {
		w.version = 0
	}
	c.staged = append(c.staged, w)
	return w.version, nil
}

// checkStaged returns an error if another staged write would exceed the limits of a hook. Its caller
// holds the lock.
func (c *Call) checkStaged(key string, value json.RawMessage) error {
	size := len(key) + len(value)
	for _, s := range c.staged {
		size += len(s.key) + len(s.value)
	}
	if size > maxLocalBytes || len(c.staged) >= maxLocalKeys {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a hook may write %d bytes and %d keys of run-local values", maxLocalBytes, maxLocalKeys)}
	}
	return nil
}

// flush makes the waiting writes to key now, for one that takes effect at once.
func (c *Call) flush(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.staged {
		if w.key == key {
			changed, err := c.run.locals.commit(c.member, w)
			if err != nil {
				return err
			}
			_ = c.held.Add(-w.size())
			if changed {
				c.touched.add(localKey{c.member.scope(key), key}, 0)
			}
		}
	}
	c.staged = slices.DeleteFunc(c.staged, func(w localWrite) bool { return w.key == key })
	return nil
}

// commit makes the writes that waited.
func (c *Call) commit() error {
	for _, w := range c.staged {
		changed, err := c.run.locals.commit(c.member, w)
		if err != nil {
			return err
		}
		if changed {
			c.touch(w.key, 0)
		}
	}
	c.staged = nil
	return nil
}

// LocalAdd adds to a counter, at once, and returns its new value.
func (c *Call) LocalAdd(key string, delta int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := c.flush(key); err != nil {
		return 0, err
	}
	n, err := c.run.locals.add(c.member, key, delta)
	if err == nil {
		c.touch(key, delta)
	}
	return n, err
}

// touch notes that the call changes a value.
func (c *Call) touch(key string, delta int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched.add(localKey{c.member.scope(key), key}, delta)
}

// Emit sends a custom event, marked with this entry. It blocks while more events of
// the run than its memory limit allows are pending; see [Accountant].
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
	case c.Hook == abi.HookObserve:
		return denied("an observer cannot emit events")
	case name == "" || len(name) > abi.MaxName || name != cleanText(name):
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("an event needs a name of 1 to %d bytes without control characters", abi.MaxName)}
	case len(data) > maxEmitBytes || n > maxEmits || sent > maxEmitted:
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a hook may emit %d events of %d bytes each, %d together", maxEmits, maxEmitBytes, maxEmitted)}
	}
	if err := c.awaitMemory("emit", len(data)); err != nil {
		return err
	}
	c.send(abi.Event{Type: abi.EventCustom, Entry: c.member.Name, Hook: c.Hook, Name: name, Data: abi.Clone(data)})
	return nil
}

// Log sends a log event. It blocks as Emit does. What passes the limits of a hook is cut
// or dropped.
func (c *Call) Log(level int32, text string) {
	c.mu.Lock()
	c.logs++
	n := c.logs
	c.mu.Unlock()
	switch {
	case n == maxLogs+1:
		level, text = abi.LogWarn, fmt.Sprintf("further log lines of this hook are dropped: more than %d", maxLogs)
	case n > maxLogs:
		return
	default:
		text = clip(text, maxLogBytes)
	}
	if c.ctx != nil && c.awaitMemory("log", len(text)) != nil {
		return
	}
	e := abi.Event{Type: abi.EventLog, Entry: c.member.Name, Hook: c.Hook, Level: abi.LogLevel(level), Text: text}
	if c.Hook == abi.HookObserve {
		c.run.host.Send(e) // not to the observers: they would never come to an end
		return
	}
	c.send(e)
}

// publish sends an event of this call.
func (c *Call) publish(e abi.Event) {
	if c.divert != nil {
		c.divert(e)
		return
	}
	c.run.send(e)
}

// send sends an event of this call, unless an earlier pass did.
func (c *Call) send(e abi.Event) {
	if c.key == "" {
		c.publish(e)
		return
	}
	sum, nth := sumOf(&e), 1
	c.mu.Lock()
	for _, told := range c.told {
		if told == sum {
			nth++
		}
	}
	c.told = append(c.told, sum)
	c.mu.Unlock()
	c.run.keeping.RLock() // an event is kept with the note that it was sent
	defer c.run.keeping.RUnlock()
	if !c.run.record.repeats(c.key, sum, nth) {
		c.publish(e)
	}
}

func denied(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(format, args...)}
}
