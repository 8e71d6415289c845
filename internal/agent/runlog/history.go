package runlog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A History holds the recorded calls of a run by phase, as read from its log.
type History struct {
	State  *State        `json:"state"`
	Input  []abi.Message `json:"input"` // the messages that the run began with
	Phases []PhaseRecord `json:"phases"`
	// Answers holds the answers to the run's interrupts by interrupt id.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Answered lists the same answers by the request that gave them.
	Answered []Answered `json:"answered,omitempty"`
}

// Answered holds the answers of one request.
type Answered struct {
	By      string                     `json:"by,omitempty"` // who answered; see agent.AnsweredBy
	TimeMS  int64                      `json:"time_ms"`
	Answers map[string]json.RawMessage `json:"answers"` // by interrupt id
}

// A PhaseRecord holds the calls that were recorded in one phase.
type PhaseRecord struct {
	Phase Phase          `json:"phase"`
	Step  int            `json:"step"`
	Deeds []RecordedCall `json:"deeds"`
}

// A RecordedCall is a recorded call with the changes that it made to the run's messages.
type RecordedCall struct {
	record.CallRecord
	Edits []Edit `json:"edits,omitempty"`
}

// An Edit removes and inserts messages at one index.
type Edit struct {
	At       int           `json:"at"`
	Removed  []abi.Message `json:"removed,omitempty"`
	Inserted []abi.Message `json:"inserted,omitempty"`
}

// ReadHistory returns the history of a run. It fails if the run's log is malformed.
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
	deeds    map[string]RecordedCall // recorded calls of the current phase, by key
	name     Phase
	step     int
	messages []abi.Message // the messages before the current phase
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
			r.deeds[key] = RecordedCall{CallRecord: deed}
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

// begin starts a phase. The state that the log has described so far becomes its initial state.
func (r *reader) begin(phase int64) {
	r.phase, r.deeds = phase, map[string]RecordedCall{}
	r.name, r.step = r.fold.state.Phase, r.fold.state.Step
	r.messages = slices.Clip(r.fold.messages)
}

// flush adds the calls of the current phase to the history.
func (r *reader) flush() {
	var deeds []RecordedCall
	for _, key := range slices.Sorted(maps.Keys(r.deeds)) {
		deeds = append(deeds, r.deeds[key])
	}
	r.deeds = nil
	slices.SortStableFunc(deeds, func(a, b RecordedCall) int {
		return cmp.Or(cmp.Compare(order(a.What), order(b.What)), cmp.Compare(r.place(a), r.place(b)))
	})
	for i := range deeds {
		r.edit(&deeds[i])
	}
	deeds = slices.DeleteFunc(deeds, func(d RecordedCall) bool { return !d.Done && !d.Begun })
	if len(deeds) > 0 {
		r.history.Phases = append(r.history.Phases, PhaseRecord{r.name, r.step, deeds})
	}
}

// hooks lists the hooks in the order in which a phase calls them.
var hooks = contract.Hooks()

// order returns the rank of a hook or call in a phase. The model's call comes before after_model,
// and a tool's after gate_tool. Unknown names come last.
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

// place returns the rank of a call's entry in the order in which the hook calls the entries.
func (r *reader) place(d RecordedCall) int {
	if abitable.HookOf(d.What).Order == "outward" {
		return -r.rank[d.Entry]
	}
	return r.rank[d.Entry]
}

// edit applies the change of a state hook to the messages and notes it in d.
func (r *reader) edit(d *RecordedCall) {
	if row := abitable.HookOf(d.What); !row.Has(abitable.Edits) {
		return
	}
	var out struct {
		Messages abi.ListPatch `json:"messages"`
	}
	if json.Unmarshal(d.Answer, &out) != nil || out.Messages.IsZero() ||
		contract.CheckListPatch(&out.Messages, len(r.messages)) != nil {
		return
	}
	splices := out.Messages.Splice
	if out.Messages.Whole {
		splices = []abi.Splice{wholeSplice(r.messages, out.Messages.Replace)}
	}
	shift := 0
	for _, s := range splices {
		at := s.At + shift
		e := Edit{At: at, Removed: slices.Clone(r.messages[at : at+s.Remove]), Inserted: s.Insert}
		r.messages = slices.Concat(r.messages[:at:at], s.Insert, r.messages[at+s.Remove:])
		shift += len(s.Insert) - s.Remove
		if len(e.Removed) > 0 || len(e.Inserted) > 0 {
			d.Edits = append(d.Edits, e)
		}
	}
}

// wholeSplice returns a splice that turns before into after. The splice leaves out the messages
// that both lists begin and end with. Messages that differ only in their origin count as equal.
func wholeSplice(before, after []abi.Message) abi.Splice {
	same := func(a, b abi.Message) bool {
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
