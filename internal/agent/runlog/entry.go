package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// An entry is a line of a run's log: what changed in its [State] since the line
// before, at the end of a phase or in the middle of one. What grows with the run
// is there as what was added. What was committed together are the lines of one
// entry of the journal.
type Entry struct {
	// Head is the state without what stands beside it here; nil if it did not
	// change.
	Head *State `json:"head,omitempty"`
	// Phase counts the phases that the run has gone through: it tells what belongs
	// to the record of the one it is in.
	Phase   int64        `json:"phase"`
	Records []PhaseDelta `json:"records,omitempty"`

	Fixed    *Fixed                  `json:"fixed,omitempty"`
	Messages *journal.MessagesChange `json:"messages,omitempty"`
	Rounds   []string                `json:"rounds,omitempty"` // that were added
	Calls    map[int]json.RawMessage `json:"calls,omitempty"`  // CallStates by index, where they changed
	NoCalls  bool                    `json:"no_calls,omitempty"`
	Inner    map[int]*ChildLog       `json:"inner,omitempty"` // runs of calls, by the calls' index
	Live     *Live                   `json:"live,omitempty"`
	Answered *Answered               `json:"answered,omitempty"`
}

func NewEntry() Entry { return Entry{Calls: map[int]json.RawMessage{}} }

// A phaseDelta is what changed in the record of a phase.
type PhaseDelta struct {
	Phase int64 `json:"phase"`
	record.Delta
}

// fixed is what changes at the beginning of a run only.
type Fixed struct {
	Instruction string     `json:"instruction"`
	Tools       []abi.Tool `json:"tools"`
	Input       []string   `json:"input"`
}

// same reports whether both are of the same slices: they are replaced, never
// changed.
func (f *Fixed) Same(o *Fixed) bool {
	return o != nil && f.Instruction == o.Instruction && len(f.Tools) == len(o.Tools) && len(f.Input) == len(o.Input) &&
		(len(f.Tools) == 0 || &f.Tools[0] == &o.Tools[0])
}

// live is what changes in the middle of a phase.
type Live struct {
	Usage      abi.Usage `json:"usage"`
	LastID     int64     `json:"last_id"`
	ModelCalls int       `json:"model_calls,omitempty"`

	ToolCalls map[string]int `json:"tool_calls,omitempty"`
	Streams   int64          `json:"streams"`
	Observed  int64          `json:"observed,omitempty"`
	Revisions int64          `json:"revisions,omitempty"`
}

// headOf is a copy of the state without what stands beside it in an entry.
func HeadOf(s *State) *State {
	head := *s
	head.Instruction, head.Tools, head.Input = "", nil, nil
	head.Used = nil // the journal has what was used beside the log
	head.Messages, head.Rounds, head.Locals, head.Record, head.Calls = nil, nil, nil, nil, nil
	head.Streamed = joined(s.Streamed)
	return &head
}

// joined puts neighbouring chunks of text together: they say the same.
func joined(chunks []abi.Chunk) []abi.Chunk {
	var out []abi.Chunk
	for _, c := range chunks {
		if n := len(out); n > 0 && c.Kind == out[n-1].Kind && (c.Kind == abi.ChunkText || c.Kind == abi.ChunkReasoning) {
			out[n-1].Text += c.Text
			continue
		}
		out = append(out, c)
	}
	return out
}

// restore puts a log together: the state, and how many phases it went through.
func Restore(log [][]byte) (*State, int64, error) {
	s := &State{Locals: local.New(), Record: record.New()}
	f := &builder{state: s}
	if err := eachEntry(log, f.add); err != nil {
		return nil, 0, err
	}
	if f.fixed == nil || s.Phase == "" {
		return nil, 0, errors.New("the run's log has no beginning")
	}
	s.Instruction, s.Tools, s.Input = f.fixed.Instruction, f.fixed.Tools, f.fixed.Input
	s.Messages, s.Calls = message.NewList(message.NewRevisions(), f.messages), f.calls
	for i, inner := range f.inner {
		if i < 0 || i >= len(s.Calls) {
			return nil, 0, fmt.Errorf("the run's log: a run of call %d in a round of %d", i, len(s.Calls))
		}
		if err := inner.restore(&s.Calls[i]); err != nil {
			return nil, 0, fmt.Errorf("the run's log: call %s: %w", s.Calls[i].Call.ID, err)
		}
	}
	for _, d := range f.records {
		if err := d.ApplyRecord(s.Record); err != nil {
			return nil, 0, fmt.Errorf("the run's log: %w", err)
		}
	}
	return s, f.phase, nil
}

// eachEntry calls fn with each line of a log.
func eachEntry(log [][]byte, fn func(*Entry) error) error {
	for i, lines := range log {
		for b := range bytes.Lines(lines) {
			var e Entry
			err := json.Unmarshal(b, &e)
			if err == nil {
				err = fn(&e)
			}
			if err != nil {
				return fmt.Errorf("entry %d of the run's log: %w", i+1, err)
			}
		}
	}
	return nil
}

// folded is what the entries so far come to.
type builder struct {
	state    *State
	fixed    *Fixed
	messages []abi.Message
	shared   bool // somebody keeps them as they are
	calls    []CallState
	inner    map[int]*ChildLog
	phase    int64
	records  []PhaseDelta // of the current phase
}

func (f *builder) add(e *Entry) error {
	s := f.state
	for i := range e.Records {
		s.Locals.Apply(e.Records[i].Locals)
	}
	if e.Phase != f.phase {
		f.phase, f.records = e.Phase, nil
	}
	for _, d := range e.Records {
		if d.Phase == f.phase {
			f.records = append(f.records, d)
		}
	}
	if e.Head != nil {
		e.Head.Rounds, e.Head.Locals, e.Head.Record = s.Rounds, s.Locals, s.Record
		*s = *e.Head
	}
	s.Rounds = append(s.Rounds, e.Rounds...)
	if e.Fixed != nil {
		f.fixed = e.Fixed
	}
	if e.Live != nil {
		s.Usage, s.LastID, s.ModelCalls = e.Live.Usage, e.Live.LastID, e.Live.ModelCalls
		s.Streams, s.Observed, s.Revisions = e.Live.Streams, e.Live.Observed, e.Live.Revisions
		if e.Live.ToolCalls != nil {
			s.ToolCalls = e.Live.ToolCalls
		}
	}
	if e.NoCalls {
		f.calls, f.inner = nil, nil
	}
	for _, i := range sortedKeys(e.Calls) {
		if i < 0 || i > len(f.calls) {
			return fmt.Errorf("call %d of a round of %d", i, len(f.calls))
		}
		if i == len(f.calls) {
			f.calls = append(f.calls, CallState{})
		}
		f.calls[i] = CallState{}
		if err := json.Unmarshal(e.Calls[i], &f.calls[i]); err != nil {
			return err
		}
	}
	for i, more := range e.Inner {
		if f.inner == nil {
			f.inner = map[int]*ChildLog{}
		}
		if f.inner[i] == nil {
			f.inner[i] = &ChildLog{}
		}
		f.inner[i].Add(more)
	}
	return f.edit(e.Messages)
}

func (f *builder) edit(d *journal.MessagesChange) error {
	if d == nil {
		return nil
	}
	var items []abi.Message
	if err := json.Unmarshal(d.Items, &items); err != nil {
		return err
	}
	if d.From < 0 || d.From > len(f.messages) {
		return fmt.Errorf("messages from %d of %d", d.From, len(f.messages))
	}
	if f.shared && d.From < len(f.messages) {
		f.messages = slices.Clone(f.messages[:d.From])
	}
	f.messages = append(f.messages[:d.From], items...)
	return nil
}

func sortedKeys(calls map[int]json.RawMessage) []int {
	keys := make([]int, 0, len(calls))
	for i := range calls {
		keys = append(keys, i)
	}
	slices.Sort(keys)
	return keys
}

// logLines writes entries of the log, a line each.
func LogLines(log []Entry) ([]byte, error) {
	var out bytes.Buffer
	for i := range log {
		b, err := abijson.Marshal(&log[i])
		if err != nil {
			return nil, err
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}
