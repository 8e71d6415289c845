package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
)

// A Keeper is a Host that keeps what happens in a run, so that another process
// can go on with it.
type Keeper interface {
	// Keep returns once all that was recorded so far is kept, so that it outlasts
	// the process, and where it is to be safe a failure of power as well. Its error
	// ends the run.
	Keep(ctx context.Context, safe bool) error
}

// keep waits until what was recorded is kept, where somebody keeps it. It is to be
// safe before something is done that must not be done twice.
func (r *Run) keep(ctx context.Context, safe bool) error {
	k, ok := r.host.(Keeper)
	if !ok {
		return nil
	}
	if err := k.Keep(ctx, safe); err != nil {
		return &Over{Cause: err}
	}
	r.owed.some.Store(false)
	return nil
}

// An owed says that something recorded is still to be kept, before a hook or a tool
// is called, which may do something outside because of it.
type owed struct {
	mu   sync.Mutex // held by who keeps it
	some atomic.Bool
}

// keepAnswer keeps what the model answered: now, if a hook waits for it, and else
// before the next hook or tool is called. Where there is none it is kept with what
// follows.
func (r *Run) keepAnswer(ctx context.Context) error {
	waits := r.scope != "" || len(r.path) > 0 // a middleware asked
	for i := Outer; i < rings; i++ {
		waits = waits || len(r.in(i, abi.HookWrapModel)) > 0
	}
	if waits {
		return r.keep(ctx, false)
	}
	r.owed.some.Store(true)
	return nil
}

// keepOwed waits until what is owed is kept.
func (r *Run) keepOwed(ctx context.Context) error {
	if !r.owed.some.Load() {
		return nil
	}
	r.owed.mu.Lock()
	defer r.owed.mu.Unlock()
	if !r.owed.some.Load() {
		return nil
	}
	return r.keep(ctx, false)
}

// A Delta is what changed in the record of a phase and in run-local values.
// What a hook wrote to run-local values is in it together with the hook's
// answer: a hook that is called again finds them as it did before.
type Delta struct {
	Record map[string]json.RawMessage `json:"record,omitempty"`
	Asked  json.RawMessage            `json:"asked,omitempty"` // interrupts, answers, approvals: all of them
	Locals []LocalChange              `json:"locals,omitempty"`
}

// A LocalChange is a run-local value that was set, or deleted if Value is nil.
type LocalChange struct {
	Scope   string          `json:"scope"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value,omitempty"`
	Version int64           `json:"version,omitempty"`
}

// Empty reports whether nothing changed.
func (d *Delta) Empty() bool { return len(d.Record) == 0 && d.Asked == nil && len(d.Locals) == 0 }

// Size returns about how many bytes the changes take.
func (d *Delta) Size() int {
	n := len(d.Asked)
	for key, b := range d.Record {
		n += len(key) + len(b)
	}
	for i := range d.Locals {
		n += len(d.Locals[i].Key) + len(d.Locals[i].Value)
	}
	return n
}

// Delta returns what changed since it was asked for the last time. take is
// called with it while no hook's answer is being recorded, so that whoever
// keeps it also knows which events belong to it. At the end of a phase what
// wrappers wrote is among it: they are not called again.
func (r *Run) Delta(phaseEnds bool, take func(*Delta) error) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if phaseEnds {
		r.locals.releaseAll()
	}
	d := &Delta{Locals: r.locals.changes()}
	var err error
	if d.Record, d.Asked, err = r.record.changes(); err != nil {
		return err
	}
	return take(d)
}

// Recording calls fn while nothing is collected: what it changes and tells is
// kept together. It must not call hooks.
func (r *Run) Recording(fn func()) {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	fn()
}

// Settle says that what came of a tool call is recorded: its wrappers are not
// called again.
func (r *Run) Settle(o *ToolOutcome) {
	if o.held != nil {
		r.locals.release(o.held)
	}
}

// ApplyRecord adds what a delta recorded.
func (d *Delta) ApplyRecord(r *Record) error {
	for key, b := range d.Record {
		var e recorded
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		put(&r.entries, key, &e)
	}
	if d.Asked == nil {
		return nil
	}
	var f recordFile
	if err := json.Unmarshal(d.Asked, &f); err != nil {
		return err
	}
	r.ask(&f)
	return nil
}

// ApplyLocals makes a delta's changes of run-local values.
func (d *Delta) ApplyLocals(l *Locals) {
	for _, c := range d.Locals {
		l.last = max(l.last, c.Version)
		l.remove(c.Scope, c.Key)
		if c.Value == nil {
			continue
		}
		if l.scopes[c.Scope] == nil {
			l.scopes[c.Scope] = map[string]localValue{}
		}
		l.scopes[c.Scope][c.Key] = localValue{c.Value, c.Version}
		l.sizes[c.Scope] += len(c.Key) + len(c.Value)
	}
}

// BegunTool reports whether the tool of a call was called, and nobody knows what
// came of it.
func (r *Record) BegunTool(callID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.entries {
		if strings.HasPrefix(key, sourceTool+"/"+callID+"#") && e.Begun && !e.Done {
			return true
		}
	}
	return false
}

// changes are the entries that changed since the last time, and if they
// changed, all interrupts, answers and approvals.
func (r *Record) changes() (entries map[string]json.RawMessage, asked json.RawMessage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.dirty {
		b, err := r.entries[key].encode()
		if err != nil {
			return nil, nil, err
		}
		if entries == nil {
			entries = map[string]json.RawMessage{}
		}
		entries[key] = b
	}
	if r.askedDirty {
		if asked, err = abi.Marshal(recordFile{Waiting: r.waiting, Answers: r.answers, Approvals: r.approvals}); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range r.dirty {
		r.entries[key].dirty = false
	}
	r.askedDirty, r.dirty = false, r.dirty[:0]
	return entries, asked, nil
}

// A localKey names a run-local value.
type localKey struct{ scope, key string }

// A touch is a change of a run-local value; delta is what was added to a counter.
type touch struct {
	localKey
	delta int64
}

// fewTouches is how many touches are searched one by one.
const fewTouches = 16

// touches are the run-local values that a call has changed, each once.
type touches struct {
	list  []touch
	index map[localKey]int // in list, from fewTouches on
}

// add notes a change, and adds delta to those of the same key.
func (t *touches) add(k localKey, delta int64) {
	if i := t.find(k); i >= 0 {
		t.list[i].delta += delta
		return
	}
	t.list = append(t.list, touch{k, delta})
	if t.index != nil {
		t.index[k] = len(t.list) - 1
	} else if len(t.list) == fewTouches {
		t.index = make(map[localKey]int, 2*fewTouches)
		for i := range t.list {
			t.index[t.list[i].localKey] = i
		}
	}
}

// find returns the place of a key's touch, or -1.
func (t *touches) find(k localKey) int {
	if t.index != nil {
		if i, ok := t.index[k]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(t.list, func(have touch) bool { return have.localKey == k })
}

// A hold is what the wrappers of one exchange wrote, and added to counters. It is
// not kept before the exchange has come to its end, since until then they would
// be called again.
type hold struct{ keys map[localKey]int64 }

type holdKey struct{}

// held returns ctx with a hold for the exchange that begins, or with that of
// the exchange that it is a part of.
func (r *Run) held(ctx context.Context) (context.Context, *hold) {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok {
		return ctx, h
	}
	return freshHold(ctx)
}

// settle takes note that a hook call has ended: what it wrote is to be kept.
func (r *Run) settle(ctx context.Context, c *Call) {
	h, _ := ctx.Value(holdKey{}).(*hold)
	if !live[c.Hook] {
		h = nil
	}
	c.mu.Lock()
	touched := c.touched.list
	c.touched = touches{}
	c.mu.Unlock()
	r.locals.touch(touched, h)
}

// touch notes changes, for now or for when the hold is released.
func (l *Locals) touch(keys []touch, h *hold) {
	if len(keys) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if h != nil {
			l.holds[h] = true
			if _, known := h.keys[k.localKey]; !known {
				l.note(1)
			}
			put(&h.keys, k.localKey, h.keys[k.localKey]+k.delta)
			continue
		}
		l.settled(k.localKey, k.delta)
	}
}

// settled says that a change is to be kept. Its callers hold the lock.
func (l *Locals) settled(k localKey, delta int64) {
	if !l.dirty[k] {
		l.dirty[k] = true
		l.note(1)
	}
	if l.open[k] -= delta; l.open[k] == 0 {
		delete(l.open, k)
	}
}

// note counts n more notes of changed keys, which outlive the values of deleted keys.
// Its callers hold the lock.
func (l *Locals) note(n int) {
	switch {
	case l.share == nil:
	case n > 0:
		l.share.Force(int64(n * overhead))
	default:
		_ = l.share.Add(int64(n * overhead))
	}
}

func (l *Locals) release(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(h)
}

func (l *Locals) releaseLocked(h *hold) {
	if !l.holds[h] {
		return
	}
	delete(l.holds, h)
	for k, delta := range h.keys {
		l.settled(k, delta)
	}
	l.note(-len(h.keys))
	clear(h.keys)
}

func (l *Locals) releaseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.holds {
		l.releaseLocked(h)
	}
}

// changes are the values that changed since the last time, sorted: counters
// without what calls added that are under way, and would add it again.
func (l *Locals) changes() []LocalChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dirty) == 0 {
		return nil
	}
	out := make([]LocalChange, 0, len(l.dirty))
	for k := range l.dirty {
		v := l.scopes[k.scope][k.key]
		if n, err := strconv.ParseInt(string(v.Value), 10, 64); err == nil && l.open[k] != 0 {
			v.Value = strconv.AppendInt(nil, n-l.open[k], 10)
		}
		out = append(out, LocalChange{k.scope, k.key, v.Value, v.Version})
	}
	l.note(-len(l.dirty))
	clear(l.dirty)
	slices.SortFunc(out, func(a, b LocalChange) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	return out
}
