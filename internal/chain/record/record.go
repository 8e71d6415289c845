// Package record records the calls of one phase of a run. With the record, the phase can be
// repeated after an interrupt or in another process without repeating side effects.
//
// A [Record] stores the outcomes of hooks, gates, the model and tools under keys that follow the
// order of their calls. It returns recorded outcomes, pending interrupts, and the changes to
// persist, as a [Delta]. A Record does not make calls.
package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Record has the finished calls of the current phase of a run. When the phase is repeated, the
// record answers for pipeline hooks, gates, the model and tools. Only wrappers, on_chunk, observe
// and the hook that interrupted are called again.
//
// A Record is persisted with the run as JSON. The next phase starts with an empty record.
type Record struct {
	mu      sync.Mutex
	entries map[string]*entry
	counts  map[string]int // number of calls of each kind in this pass, for the keys

	waiting   map[string]abi.Pending // unanswered interrupts by key
	answers   map[string]abi.Resume  // answers to interrupts by key
	approvals []Approval

	bytes      int64          // approximate size of the record
	asked      int64          // size of the interrupts, included in bytes
	share      *account.Share // share of the run's memory; nil if memory is not counted
	dirty      []string       // keys of entries that changed since they were last persisted
	askedDirty bool           // interrupts, answers or approvals changed since they were last persisted
}

// An entry is the outcome of one call.
type entry struct {
	Answer  json.RawMessage `json:"answer,omitempty"`
	Failed  *abi.Error      `json:"failed,omitempty"`
	Faulted bool            `json:"faulted,omitempty"` // the fault was skipped
	Begun   bool            `json:"begun,omitempty"`   // the tool was called
	Done    bool            `json:"done"`
	Events  int             `json:"events,omitempty"` // number of the host's events about the call that were sent
	Told    []uint64        `json:"told,omitempty"`   // hashes of the sent events of the call
	Own     *abi.Call       `json:"own,omitempty"`    // a tool call that a middleware makes for itself

	value any  // the answer before it is encoded
	dirty bool // changed since it was last persisted
}

// An Approval is a person's answer to the question whether one exact call is allowed.
type Approval struct {
	CallID    string       `json:"call_id"`
	Owner     string       `json:"owner"`
	Tool      string       `json:"tool"`
	Arguments string       `json:"arguments"`
	Approval  abi.Approval `json:"approval"`
	By        string       `json:"by,omitempty"` // who answered, as far as the host knows
}

// New returns the record of a new phase.
func New() *Record {
	return &Record{} // the maps are made on first use, since most phases need few of them
}

// A recordFile is the JSON form of a record.
type recordFile struct {
	Entries   map[string]*entry      `json:"entries,omitempty"`
	Waiting   map[string]abi.Pending `json:"waiting,omitempty"`
	Answers   map[string]abi.Resume  `json:"answers,omitempty"`
	Approvals []Approval             `json:"approvals,omitempty"`
}

// encode returns the entry as JSON. It encodes the answer at most once.
func (e *entry) encode() ([]byte, error) {
	if e.value != nil {
		b, err := abijson.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		e.Answer, e.value = b, nil
	}
	return abijson.Marshal(e)
}

// MarshalJSON returns the recorded calls and the interrupts.
func (r *Record) MarshalJSON() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if _, err := e.encode(); err != nil {
			return nil, err
		}
	}
	return abijson.Marshal(recordFile{r.entries, r.waiting, r.answers, r.approvals})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (r *Record) UnmarshalJSON(b []byte) error {
	var f recordFile
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	fresh := New()
	if f.Entries != nil {
		fresh.entries = f.Entries
	}
	r.entries, r.counts, r.dirty, r.bytes = fresh.entries, fresh.counts, fresh.dirty, 0
	for _, e := range r.entries {
		r.bytes += int64(len(e.Answer)) + recordOverhead
	}
	r.ask(&f)
	return nil
}

// ask replaces r's interrupts, answers and approvals with those in f.
func (r *Record) ask(f *recordFile) {
	fresh := New()
	r.waiting, r.answers, r.approvals = fresh.waiting, fresh.answers, f.Approvals
	if f.Waiting != nil {
		r.waiting = f.Waiting
	}
	if f.Answers != nil {
		r.answers = f.Answers
	}
}

// maxReused is the number of calls and kinds up to which a record reuses the maps of another one.
const maxReused = 64

// BeginPass starts another pass through the phase. last is the record of the pass before, which may
// be r itself or belong to an earlier phase. In the latter case, r reuses the memory of last, which
// becomes empty. The memory of r is counted in share from now on, unless share is nil.
func (r *Record) BeginPass(last *Record, share *account.Share) {
	var counts map[string]int
	var entries map[string]*entry
	if last != r {
		counts, entries = last.empty()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
	if r.counts == nil && len(counts) <= maxReused {
		clear(counts)
		r.counts = counts
	}
	if r.entries == nil && len(entries) <= maxReused {
		clear(entries)
		r.entries = entries
	}
	if r.share = share; share != nil {
		_ = share.Set(0)
		share.Force(r.bytes)
	}
}

// empty removes the calls from the record, and returns the maps that contained them.
func (r *Record) empty() (counts map[string]int, entries map[string]*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts, entries = r.counts, r.entries
	r.counts, r.entries, r.dirty = nil, nil, nil
	return counts, entries
}

// NextKey returns the key of the next call of the kind that parts identify. The nth call of a kind
// has the same key in each pass.
func (r *Record) NextKey(parts ...string) string {
	var room [128]byte
	kind := room[:0]
	for i, part := range parts {
		if i > 0 {
			kind = append(kind, '/')
		}
		kind = append(kind, part...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.counts[string(kind)] + 1
	key := string(strconv.AppendInt(append(kind, '#'), int64(n), 10))
	put(&r.counts, key[:len(kind)], n)
	return key
}

// at returns the entry of key, which it creates if there is none. The caller holds the lock.
func (r *Record) at(key string) *entry {
	e := r.entries[key]
	if e == nil {
		e = &entry{}
		put(&r.entries, key, e)
	}
	return e
}

// change returns the entry of key and marks the entry for persisting. The caller holds the lock.
func (r *Record) change(key string) *entry {
	e := r.at(key)
	if !e.dirty {
		e.dirty = true
		r.dirty = append(r.dirty, key)
	}
	return e
}

// Load decodes the outcome of the call of key into out. ok is false if the call has not finished.
// Load returns an error if the recorded answer cannot be decoded.
func (r *Record) Load(key string, out any) (v Verdict, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e == nil || !e.Done {
		return v, false, nil
	}
	if e.value != nil {
		b, err := abijson.Marshal(e.value)
		if err != nil {
			return v, true, err
		}
		e.Answer, e.value = b, nil
	}
	if e.Answer != nil {
		if err := json.Unmarshal(e.Answer, out); err != nil {
			return v, true, fmt.Errorf("read the record of the run: %w", err)
		}
	}
	return Verdict{Failed: e.Failed, Faulted: e.Faulted}, true, nil
}

// LoadAs is like Load and returns an outcome of type T. ok is also false if the outcome cannot be
// decoded into a T.
func LoadAs[T any](r *Record, key string) (known *T, v Verdict, ok bool) {
	if !r.isDone(key) {
		return nil, v, false
	}
	known = new(T)
	v, ok, err := r.Load(key, known)
	return known, v, ok && err == nil
}

func (r *Record) isDone(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Done
}

// Save records out and v as the outcome of the call of key. out is nil, or [Record.Reserve],
// [Record.ReserveAnswer] or [Record.Force] has counted its memory.
func (r *Record) Save(key string, out any, v Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.change(key)
	e.Done, e.value, e.Answer, e.Failed, e.Faulted = true, out, nil, v.Failed, v.Faulted
}

// Answers calls fn with the recorded answers of the model and of tools. call is the ID of the tool
// call, or "" for the model. Answers leaves out answers that are not encoded yet, and model calls
// that middlewares made for themselves.
func (r *Record) Answers(fn func(call string, answer json.RawMessage)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.entries {
		kind, _, _ := strings.Cut(key, "/")
		if e.Answer == nil || kind != kindTool && kind != kindCallTool && !strings.HasPrefix(kind, kindModel+"#") {
			continue
		}
		if d := parseKey(key); d.Call != "" || d.What == kindModel {
			fn(d.Call, e.Answer)
		}
	}
}

// put sets key in a map. It creates the map if it is nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// The first parts of the keys of model calls and tool calls.
const (
	kindModel    = "model"
	kindTool     = "tool"
	kindCallTool = string(contract.HookCallTool) // calls of tools that middlewares added
)

// A Verdict is the outcome of a hook call that did not end the run: an applied answer, a failure
// that the middleware reported, or a skipped fault.
type Verdict struct {
	Failed  *abi.Error
	Faulted bool
}

// OK reports whether the answer was applied.
func (v Verdict) OK() bool { return v.Failed == nil && !v.Faulted }
