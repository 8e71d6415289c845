package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A Record is what has been done in the phase that a run is in, so that the
// phase can be gone through again after an interrupt and nothing is done
// twice: pipeline hooks, gates, the model and tools answer from it, and only
// wrappers, and the hook that interrupted, are called again.
//
// It is a plain value that is kept with the run. A phase that comes to its end
// begins the next one with an empty record.
type Record struct {
	mu      sync.Mutex
	entries map[string]*entry
	counts  map[string]int // calls of each kind in this pass, to tell them apart

	waiting   map[string]abi.Pending // by key
	answers   map[string]abi.Resume  // by key
	approvals []approval

	bytes      int64          // about how many it keeps
	asked      int64          // of them, of interrupts
	share      *account.Share // of the run's memory; nil: it is not counted
	dirty      []string       // the keys of entries that changed since they were kept
	askedDirty bool           // the same of what waits, was answered or approved
}

// A recorded is one thing that was done: an answer, or a failure.
type entry struct {
	Answer  json.RawMessage `json:"answer,omitempty"`
	Failed  *abi.Error      `json:"failed,omitempty"`
	Faulted bool            `json:"faulted,omitempty"` // and passed over
	Begun   bool            `json:"begun,omitempty"`   // a tool: it was called
	Done    bool            `json:"done"`
	Events  int             `json:"events,omitempty"` // of the host about the call: that they were told
	Told    []uint64        `json:"told,omitempty"`   // of the call's own: what was told, as sums
	Own     *abi.Call       `json:"own,omitempty"`    // a tool call that a middleware makes of its own

	value any  // Answer, before it was encoded
	dirty bool // it changed since it was kept
}

// An approval is what somebody decided about one exact call.
type approval struct {
	CallID    string       `json:"call_id"`
	Owner     string       `json:"owner"`
	Tool      string       `json:"tool"`
	Arguments string       `json:"arguments"`
	Approval  abi.Approval `json:"approval"`
}

// NewRecord returns the record of a phase that begins.
func New() *Record {
	return &Record{} // its maps are made when they are needed: most phases need few
}

// Next returns the record of the phase that follows that of r, which has come to its
// end; that of a first one if r is nil. What r counted in is used again.
func (r *Record) NextPhase() *Record {
	if r == nil {
		return New()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = nil
	clear(counts)
	return &Record{counts: counts}
}

// count counts what is recorded in a share of the run's memory.
func (r *Record) SetShare(share *account.Share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.share = share; share == nil {
		return
	}
	_ = share.Set(0)
	share.Force(r.bytes)
}

type recordFile struct {
	Entries   map[string]*entry      `json:"entries,omitempty"`
	Waiting   map[string]abi.Pending `json:"waiting,omitempty"`
	Answers   map[string]abi.Resume  `json:"answers,omitempty"`
	Approvals []approval             `json:"approvals,omitempty"`
}

// encode writes an entry; what it answered is encoded once.
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

// MarshalJSON writes what was done, and what waits for an answer.
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

// UnmarshalJSON reads what MarshalJSON wrote.
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
		r.bytes += int64(len(e.Answer)) + keptBeside
	}
	r.ask(&f)
	return nil
}

// ask takes over what waits, was answered and approved.
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

// begin begins another pass through the phase.
func (r *Record) BeginPass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
}

// next is the key of the next call of some kind, which the parts name: the same in
// each pass.
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

// at returns the entry of a key, made if it is not there.
func (r *Record) at(key string) *entry {
	e := r.entries[key]
	if e == nil {
		e = &entry{}
		put(&r.entries, key, e)
	}
	return e
}

// change returns the entry of a key, which is to be kept anew.
func (r *Record) change(key string) *entry {
	e := r.at(key)
	if !e.dirty {
		e.dirty = true
		r.dirty = append(r.dirty, key)
	}
	return e
}

// done returns what came of the call of a key, if it came to its end.
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

// doneAs is done for what is recorded as a T; ok is false where that cannot be read.
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

// keep notes what came of the call of a key, which [Record.hold] or [Record.reserve] has
// counted.
func (r *Record) Save(key string, out any, v Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.change(key)
	e.Done, e.value, e.Answer, e.Failed, e.Faulted = true, out, nil, v.Failed, v.Faulted
}

// put sets a key of a map, which is made if it is not there.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// kindTool begins the keys of calls of tools.
const kindTool = "tool"

// A verdict is what came of one hook call that did not end the run: an
// answer that was applied, a failure the middleware reported, or a fault that
// was passed over.
type Verdict struct {
	Failed  *abi.Error
	Faulted bool
}

func (v Verdict) OK() bool { return v.Failed == nil && !v.Faulted }
