package runlog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A History is the recorded calls of a run by phase, read from the run's log.
type History struct {
	State  *State        `json:"state"`
	Input  []abi.Message `json:"input"` // messages at the start of the run
	Phases []PhaseRecord `json:"phases"`
	// Answers has the answers to the run's interrupts, by interrupt ID.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Answered has the same answers, by the request that gave them.
	Answered []Answered `json:"answered,omitempty"`
}

// Answered is the answers of one request.
type Answered struct {
	By      string                     `json:"by,omitempty"` // who answered; see agent.AnsweredBy
	TimeMS  int64                      `json:"time_ms"`
	Answers map[string]json.RawMessage `json:"answers"` // by interrupt id
	// Request identifies the request, if its caller wants to recognize a repetition; nil otherwise.
	Request *AnsweringRequest `json:"request,omitempty"`
}

// An AnsweringRequest identifies a request with answers, and has the position of the run before the
// request.
type AnsweringRequest struct {
	Key    string    `json:"key"`    // same in a repetition of the request
	Digest string    `json:"digest"` // different in another request with the same key
	After  int64     `json:"after"`  // number of the last event
	Usage  abi.Usage `json:"usage"`
}

// A PhaseRecord is the calls that were recorded in one phase.
type PhaseRecord struct {
	Phase Phase          `json:"phase"`
	Step  int            `json:"step"`
	Calls []RecordedCall `json:"calls"`
}

// A RecordedCall is a recorded call with the changes that it made to the run's messages or, for
// before_model, to the messages of the request.
type RecordedCall struct {
	record.CallRecord
	Edits []Edit `json:"edits,omitempty"`

	attempt int // number of the call among the calls of the same hook and entry in a phase, from 1
}

// An Edit removes and inserts messages at one index.
type Edit struct {
	At       int           `json:"at"`
	Removed  []abi.Message `json:"removed,omitempty"`
	Inserted []abi.Message `json:"inserted,omitempty"`
	// Omitted is the number of removed messages that Removed does not contain, because the removed
	// messages of all requests exceed maxRequestEdits.
	Omitted int `json:"omitted,omitempty"`
}

// maxRequestEdits is the maximum size in bytes of the messages in a history that were removed from
// requests. A module can remove the whole conversation from each request.
const maxRequestEdits = 4 << 20

// ReadHistory returns the history of a run. It returns an error if the run's log is malformed.
func ReadHistory(stored *journal.StoredRun) (*History, error) {
	state, _, err := Restore(stored.Log)
	if err != nil {
		return nil, err
	}
	h := &History{State: state, Answers: map[string]json.RawMessage{}}
	r := &reader{
		history: h,
		fold:    &builder{shared: true, state: &State{Locals: local.New(), Record: record.New()}},
		rank:    map[string]int{},
		phase:   -1,
	}
	for i, p := range stored.Modules {
		r.rank[p.Entry] = i
	}
	if err := eachEntry(stored.Log, r.add); err != nil {
		return nil, err
	}
	r.flush()
	return h, nil
}

// A reader builds a [History] from the lines of a log.
type reader struct {
	history *History
	fold    *builder
	rank    map[string]int // positions of the entries, outermost first

	phase    int64
	calls    map[string]RecordedCall // recorded calls of the current phase, by key
	name     Phase
	step     int
	messages []abi.Message // messages before the current phase

	instruction string // instruction before the current phase
	removed     int    // size of the messages removed from requests, in bytes

	// The requests of the current phase, by attempt. requester is the entry whose edits were
	// applied last. requests has the requests after the edits of requester, and outer has those
	// before.
	requests, outer map[int][]abi.Message
	requester       string
}

// add adds the calls, answers and input of one line of the log to the history.
func (r *reader) add(e *Entry) error {
	first := r.fold.fixed == nil
	for _, d := range e.Records {
		if d.Phase != r.phase {
			r.flush()
			r.begin(d.Phase)
		}
		answers, err := d.Answers()
		if err != nil {
			return err
		}
		maps.Copy(r.history.Answers, answers)
		for key, b := range d.Record {
			deed, err := record.ParseCall(key, b)
			if err != nil {
				return err
			}
			attempt, _ := strconv.Atoi(key[strings.LastIndexByte(key, '#')+1:])
			r.calls[key] = RecordedCall{CallRecord: deed, attempt: attempt}
		}
	}
	if err := r.fold.add(e); err != nil {
		return err
	}
	if e.Answered != nil {
		r.history.Answered = append(r.history.Answered, *e.Answered)
	}
	if first {
		r.history.Input = slices.Clone(r.fold.messages)
	}
	return nil
}

// begin starts a phase, whose initial state is the state that the log has described so far.
func (r *reader) begin(phase int64) {
	r.phase, r.calls = phase, map[string]RecordedCall{}
	r.name, r.step = r.fold.state.Phase, r.fold.state.Step
	r.messages = slices.Clip(r.fold.messages)
	r.outer, r.requests, r.requester = map[int][]abi.Message{}, map[int][]abi.Message{}, ""
	if f := r.fold.fixed; f != nil {
		r.instruction = f.Instruction
	}
}

// flush adds the calls of the current phase to the history.
func (r *reader) flush() {
	var calls []RecordedCall
	for _, key := range slices.Sorted(maps.Keys(r.calls)) {
		calls = append(calls, r.calls[key])
	}
	r.calls = nil
	slices.SortStableFunc(calls, func(a, b RecordedCall) int {
		return cmp.Or(cmp.Compare(order(a.What), order(b.What)), cmp.Compare(r.place(a), r.place(b)))
	})
	for i := range calls {
		r.edit(&calls[i])
	}
	calls = slices.DeleteFunc(calls, func(d RecordedCall) bool { return !d.Done && !d.Begun })
	if len(calls) > 0 {
		r.history.Phases = append(r.history.Phases, PhaseRecord{r.name, r.step, calls})
	}
}

// hooks lists the hooks in the order in which a phase calls them.
var hooks = contract.Hooks()

// order returns the rank of a hook or call in a phase. The model's call precedes after_model, and a
// tool's call follows gate_tool. Unknown names come last.
func order(what string) int {
	rank := func(h abi.Hook) int {
		at := slices.Index(hooks, h)
		if at < 0 {
			at = len(hooks)
		}
		return 2 * at
	}
	switch what {
	case "model":
		return rank(contract.HookAfterModel) - 1
	case "tool":
		return rank(contract.HookGateTool) + 1
	default:
		return rank(abi.Hook(what))
	}
}

// place returns the rank of the call's entry in the order in which the hook calls entries.
func (r *reader) place(d RecordedCall) int {
	if abitable.HookOf(d.What).Order == "outward" {
		return -r.rank[d.Entry]
	}
	return r.rank[d.Entry]
}

// edit applies the change of a hook to the messages of the run or of the request, and sets d.Edits
// to the change.
func (r *reader) edit(d *RecordedCall) {
	row := abitable.HookOf(d.What)
	switch {
	case row.Has(abitable.Edits):
		var out struct {
			Messages abi.ListPatch `json:"messages"`
		}
		if json.Unmarshal(d.Answer, &out) == nil {
			r.messages, d.Edits = apply(r.messages, &out.Messages)
		}
	case d.What == string(contract.HookBeforeModel) && d.Call == "": // not in a call that a middleware makes for itself
		var out struct {
			Request struct {
				Messages abi.ListPatch `json:"messages"`
			} `json:"request"`
		}
		if json.Unmarshal(d.Answer, &out) == nil {
			r.requests[d.attempt], d.Edits = apply(r.request(d), &out.Request.Messages)
			r.bound(d.Edits)
		}
	}
}

// request returns the messages of the request before the call of a hook. If a wrapper repeats its
// call, entries of inner rings are called more often than those of outer rings. Their request is
// then the last one of the outer rings.
func (r *reader) request(d *RecordedCall) []abi.Message {
	if d.Entry != r.requester {
		maps.Copy(r.outer, r.requests)
		clear(r.requests)
		r.requester = d.Entry
	}
	for attempt := d.attempt; attempt > 0; attempt-- {
		if messages, ok := r.outer[attempt]; ok {
			return messages
		}
	}
	if r.instruction != "" {
		return slices.Concat([]abi.Message{abi.System(r.instruction)}, r.messages)
	}
	return r.messages
}

// bound drops the removed messages from edits of a request if all such messages exceed
// maxRequestEdits.
func (r *reader) bound(edits []Edit) {
	for i := range edits {
		n := 0
		for j := range edits[i].Removed {
			n += int(size.Message(&edits[i].Removed[j]))
		}
		if r.removed += n; r.removed > maxRequestEdits {
			edits[i].Omitted, edits[i].Removed = len(edits[i].Removed), nil
		}
	}
}

// apply returns the messages after patch p, and the edits of p. It ignores an invalid patch.
func apply(messages []abi.Message, p *abi.ListPatch) (out []abi.Message, edits []Edit) {
	if p.IsZero() || contract.CheckListPatch(p, len(messages)) != nil {
		return messages, nil
	}
	splices := p.Splice
	if p.Whole {
		splices = []abi.Splice{wholeSplice(messages, p.Replace)}
	}
	out, done := make([]abi.Message, 0, len(messages)), 0
	for _, s := range splices {
		out = append(out, messages[done:s.At]...)
		done = s.At + s.Remove
		if s.Remove > 0 || len(s.Insert) > 0 {
			edits = append(edits, Edit{At: len(out), Removed: slices.Clone(messages[s.At:done]), Inserted: s.Insert})
		}
		out = append(out, s.Insert...)
	}
	return append(out, messages[done:]...), edits
}

// wholeSplice returns a splice that turns before into after. The splice leaves out the messages at
// the beginning and at the end that are equal in both lists. Messages that differ only in origin
// and labels count as equal.
func wholeSplice(before, after []abi.Message) abi.Splice {
	same := func(a, b abi.Message) bool {
		a, b = message.Unlabelled(a), message.Unlabelled(b)
		a.Origin, b.Origin = "", ""
		x, errX := abijson.Marshal(a)
		y, errY := abijson.Marshal(b)
		return errX == nil && errY == nil && string(x) == string(y)
	}
	head := 0
	for head < min(len(before), len(after)) && same(before[head], after[head]) {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && same(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	return abi.Splice{At: head, Remove: len(before) - head - tail, Insert: after[head : len(after)-tail]}
}
