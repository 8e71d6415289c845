package chain

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
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
	entries map[string]*recorded
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
type recorded struct {
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
func NewRecord() *Record {
	return &Record{} // its maps are made when they are needed: most phases need few
}

// Next returns the record of the phase that follows that of r, which has come to its
// end; that of a first one if r is nil. What r counted in is used again.
func (r *Record) Next() *Record {
	if r == nil {
		return NewRecord()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = nil
	clear(counts)
	return &Record{counts: counts}
}

// count counts what is recorded in a share of the run's memory.
func (r *Record) count(share *account.Share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.share = share; share == nil {
		return
	}
	_ = share.Set(0)
	share.Force(r.bytes)
}

// put sets a key of a map, which is made if it is not there.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

type recordFile struct {
	Entries   map[string]*recorded   `json:"entries,omitempty"`
	Waiting   map[string]abi.Pending `json:"waiting,omitempty"`
	Answers   map[string]abi.Resume  `json:"answers,omitempty"`
	Approvals []approval             `json:"approvals,omitempty"`
}

// encode writes an entry; what it answered is encoded once.
func (e *recorded) encode() ([]byte, error) {
	if e.value != nil {
		b, err := abi.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		e.Answer, e.value = b, nil
	}
	return abi.Marshal(e)
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
	return abi.Marshal(recordFile{r.entries, r.waiting, r.answers, r.approvals})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(b []byte) error {
	var f recordFile
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	fresh := NewRecord()
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
	fresh := NewRecord()
	r.waiting, r.answers, r.approvals = fresh.waiting, fresh.answers, f.Approvals
	if f.Waiting != nil {
		r.waiting = f.Waiting
	}
	if f.Answers != nil {
		r.answers = f.Answers
	}
}

// Pending are the interrupts that wait for an answer, in the order of their ids.
func (r *Record) Pending() []abi.Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []abi.Pending
	for _, p := range r.waiting {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b abi.Pending) int {
		if len(a.ID) != len(b.ID) {
			return len(a.ID) - len(b.ID)
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// Answer answers interrupts by their ids. It changes nothing if an id is
// unknown or an answer makes no sense.
func (r *Record) Answer(answers map[string]json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var approvals []approval
	byID := map[string]string{}
	for key, p := range r.waiting {
		byID[p.ID] = key
	}
	for id, answer := range answers {
		key, ok := byID[id]
		if !ok {
			return fmt.Errorf("no interrupt %q waits for an answer", id)
		}
		if err := abi.Valid(answer); err != nil {
			return fmt.Errorf("answer to %s: %w", id, err)
		}
		p := r.waiting[key]
		if p.Hook != abi.HookGateTool {
			continue
		}
		a, err := parseApproval(answer)
		if err != nil {
			return fmt.Errorf("answer to %s: %w", id, err)
		}
		approvals = append(approvals, approval{p.Call.ID, p.Call.Owner, p.Call.Name, p.Call.Arguments, a})
	}
	for id, answer := range answers {
		key := byID[id]
		put(&r.answers, key, abi.Resume{ID: id, Answer: slices.Clone(answer)})
		delete(r.waiting, key)
	}
	r.approvals = append(r.approvals, approvals...)
	r.askedDirty = true
	return nil
}

// parseApproval reads an answer to a gate's question; a bare true or false
// approves or denies.
func parseApproval(answer json.RawMessage) (abi.Approval, error) {
	switch string(answer) {
	case "true":
		return abi.Approval{Decision: abi.Approve}, nil
	case "false":
		return abi.Approval{Decision: abi.Reject}, nil
	}
	var a abi.Approval
	if _, err := abi.Decode(answer, &a); err != nil {
		return a, fmt.Errorf("this is no decision (approve, deny or edit): %w", err)
	}
	switch {
	case a.Decision == abi.Edit && a.Arguments == nil:
		return a, fmt.Errorf("an edit needs arguments, a JSON object in a string")
	case a.Decision == abi.Edit:
		if _, err := ParseArguments(*a.Arguments); err != nil {
			return a, fmt.Errorf("arguments: %w", err)
		}
	case a.Decision != abi.Approve && a.Decision != abi.Reject:
		return a, fmt.Errorf("decision is %q; want approve, deny or edit", a.Decision)
	case a.Arguments != nil:
		return a, fmt.Errorf("with the decision %s there are no arguments; edit is the one that runs the call with others", a.Decision)
	}
	return a, nil
}

// begin begins another pass through the phase.
func (r *Record) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
}

// next is the key of the next call of some kind, which the parts name: the same in
// each pass.
func (r *Record) next(parts ...string) string {
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
func (r *Record) at(key string) *recorded {
	e := r.entries[key]
	if e == nil {
		e = &recorded{}
		put(&r.entries, key, e)
	}
	return e
}

// change returns the entry of a key, which is to be kept anew.
func (r *Record) change(key string) *recorded {
	e := r.at(key)
	if !e.dirty {
		e.dirty = true
		r.dirty = append(r.dirty, key)
	}
	return e
}

// done returns what came of the call of a key, if it came to its end.
func (r *Record) done(key string, out any) (v verdict, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e == nil || !e.Done {
		return v, false, nil
	}
	if e.value != nil {
		b, err := abi.Marshal(e.value)
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
	return verdict{failed: e.Failed, faulted: e.Faulted}, true, nil
}

// doneAs is done for what is recorded as a T; ok is false where that cannot be read.
func doneAs[T any](r *Record, key string) (known *T, v verdict, ok bool) {
	if !r.isDone(key) {
		return nil, v, false
	}
	known = new(T)
	v, ok, err := r.done(key, known)
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
func (r *Record) keep(key string, out any, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.change(key)
	e.Done, e.value, e.Answer, e.Failed, e.Faulted = true, out, nil, v.failed, v.faulted
}

// begun reports whether a tool was called and nobody knows what came of it.
func (r *Record) begun(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Begun && !e.Done
}

// setBegun notes that a tool is about to be called, or that it is known to
// have done nothing yet.
func (r *Record) setBegun(key string, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(key).Begun = begun
}

// repeats notes that a call sends an event for the nth time in this pass, and says
// whether an earlier pass told it as often. Events that say something else are not
// the same: a hook that goes on with an answer has something new to say.
func (r *Record) repeats(key string, sum uint64, nth int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	for _, told := range e.Told {
		if told == sum {
			nth--
		}
	}
	if nth <= 0 {
		return true
	}
	e.Told = append(e.Told, sum)
	r.change(key)
	return false
}

// sumOf stands for what an event of a call says.
func sumOf(e *abi.Event) uint64 {
	h := fnv.New64a()
	for _, part := range []string{string(e.Type), e.Level, e.Name, e.Text} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(e.Data)
	return h.Sum64()
}

// told counts an event about a call, and says whether it was told in an earlier pass.
func (r *Record) told(key string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	if n <= e.Events {
		return true
	}
	e.Events = n
	r.change(key)
	return false
}

// resume returns the answer to the interrupt of a key, or the interrupt if it
// still waits for one.
func (r *Record) resume(key string) (*abi.Resume, *abi.Pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 && len(r.waiting) == 0 {
		return nil, nil
	}
	if a, ok := r.answers[key]; ok {
		return &a, nil
	}
	if p, ok := r.waiting[key]; ok {
		return nil, &p
	}
	return nil, nil
}

// maxAsked is how many bytes the interrupts of a phase may have together. All of them
// are persisted with each new one.
const maxAsked = 2 << 20

// A tooMuchAskedError reports interrupts of a phase that do not fit a limit.
type tooMuchAskedError struct{ cause error }

// Error returns the cause's message.
func (e *tooMuchAskedError) Error() string { return "interrupt: " + e.cause.Error() }

// wait notes an interrupt, or returns a [*tooMuchAskedError].
func (r *Record) wait(key string, p abi.Pending) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := sizeOfPending(&p)
	if r.asked+n > maxAsked {
		return &tooMuchAskedError{fmt.Errorf("reasons, payloads and arguments of the run's interrupts take more than %d bytes; ask for less", maxAsked)}
	}
	if err := r.grow(n); err != nil {
		return &tooMuchAskedError{err}
	}
	r.asked += n
	delete(r.answers, key)
	put(&r.waiting, key, p)
	r.askedDirty = true
	return nil
}

// sizeOfPending returns about how many bytes an interrupt takes.
func sizeOfPending(p *abi.Pending) int64 {
	n := overhead + len(p.Reason) + len(p.Payload)
	if p.Call != nil {
		n += len(p.Call.Arguments)
	}
	for i := range p.Asks {
		n += len(p.Asks[i].Reason) + len(p.Asks[i].Payload)
	}
	return int64(n)
}

// decided returns what somebody decided about an exact call.
func (r *Record) decided(call abi.Call, owner string) (abi.Approval, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range slices.Backward(r.approvals) {
		if a.CallID == call.ID && a.Owner == owner && a.Tool == call.Name && a.Arguments == call.Arguments {
			return a.Approval, true
		}
	}
	return abi.Approval{}, false
}

// approve notes that the arguments somebody wrote are approved.
func (r *Record) approve(call abi.Call, owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.approvals = append(r.approvals, approval{call.ID, owner, call.Name, call.Arguments, abi.Approval{Decision: abi.Approve}})
	r.askedDirty = true
}
