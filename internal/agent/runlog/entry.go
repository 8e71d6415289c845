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

// An Entry is a line of a run's log: the changes of the run's [State] since the previous line. It
// is written at the end of a phase or within one. Messages, Rounds and Records have only what
// changed. The lines of one commit are one entry of the journal.
type Entry struct {
	// Head is the state without the parts for which an Entry has other fields; nil if unchanged.
	Head *State `json:"head,omitempty"`
	// Phase is the number of phases that have ended. The records of earlier phases are not part of
	// the current record.
	Phase   int64        `json:"phase"`
	Records []PhaseDelta `json:"records,omitempty"`

	Fixed    *Fixed                  `json:"fixed,omitempty"`
	Messages *journal.MessagesChange `json:"messages,omitempty"`
	Rounds   []string                `json:"rounds,omitempty"` // message ids of added rounds
	Calls    map[int]json.RawMessage `json:"calls,omitempty"`  // changed CallStates by index
	NoCalls  bool                    `json:"no_calls,omitempty"`
	Inner    map[int]*ChildLog       `json:"inner,omitempty"` // runs of sub-agents by the index of their call
	Live     *Live                   `json:"live,omitempty"`
	Answered *Answered               `json:"answered,omitempty"`
}

// NewEntry returns an empty entry.
func NewEntry() Entry { return Entry{Calls: map[int]json.RawMessage{}} }

// A PhaseDelta is a change of the record of a phase.
type PhaseDelta struct {
	Phase int64 `json:"phase"`
	record.Delta
}

// Fixed is the part of the state that changes only at the start of an agent's turn.
type Fixed struct {
	Instruction string     `json:"instruction"`
	Tools       []abi.Tool `json:"tools"`
	Input       []string   `json:"input"`

	InstructionLabels []string `json:"instruction_labels,omitempty"`

	Model  *Model         `json:"model,omitempty"`
	Limits *abi.RunLimits `json:"limits,omitempty"`

	Requested *Requested `json:"requested,omitempty"`
}

// FixedOf returns the part of a state that changes only at the start of an agent's turn.
func FixedOf(s *State) *Fixed {
	return &Fixed{
		Instruction:       s.Instruction,
		Tools:             s.Tools,
		Input:             s.Input[min(s.Base, len(s.Input)):],
		Model:             s.Model,
		Limits:            s.Limits,
		InstructionLabels: s.InstructionLabels,
		Requested:         s.Requested,
	}
}

// Same reports whether o has the same values as f. It compares the lengths and addresses of slices
// and the values of pointers, because a state replaces them instead of modifying their targets.
func (f *Fixed) Same(o *Fixed) bool {
	return o != nil && f.Instruction == o.Instruction && len(f.InstructionLabels) == len(o.InstructionLabels) &&
		f.Model == o.Model && f.Limits == o.Limits && f.Requested == o.Requested &&
		len(f.Tools) == len(o.Tools) && len(f.Input) == len(o.Input) &&
		(len(f.Tools) == 0 || &f.Tools[0] == &o.Tools[0])
}

// Live is the part of the state that changes within a phase.
type Live struct {
	Usage      abi.Usage            `json:"usage"`
	Models     map[string]abi.Usage `json:"models,omitempty"`
	LastID     int64                `json:"last_id"`
	ModelCalls int                  `json:"model_calls,omitempty"`

	ToolCalls map[string]int `json:"tool_calls,omitempty"`
	Streams   int64          `json:"streams"`
	Observed  int64          `json:"observed,omitempty"`
	Revisions int64          `json:"revisions,omitempty"`
}

// HeadOf returns a copy of the state without the parts for which an [Entry] has other fields.
func HeadOf(s *State) *State {
	head := *s
	head.Instruction, head.Tools, head.Input, head.Model, head.Limits, head.Requested = "", nil, nil, nil, nil, nil
	head.InstructionLabels, head.Models = nil, nil
	head.Used = nil // the journal stores it outside of the log
	head.Messages, head.Rounds, head.Locals, head.Record, head.Calls = nil, nil, nil, nil, nil
	head.Streamed = joined(s.Streamed)
	return &head
}

// joined returns chunks with adjacent text chunks of the same kind merged into one.
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

// Restore returns the state that a log describes, and the number of phases that have ended. It
// returns an error if the log is malformed or has no beginning.
func Restore(log [][]byte) (*State, int64, error) {
	s := &State{Locals: local.New(), Record: record.New()}
	f := &builder{state: s}
	if err := eachEntry(log, f.add); err != nil {
		return nil, 0, err
	}
	if f.fixed == nil || s.Phase == "" {
		return nil, 0, errors.New("the run's log has no beginning")
	}
	s.Instruction, s.Tools, s.Input = f.fixed.Instruction, f.fixed.Tools, slices.Concat(f.base, f.fixed.Input)
	s.Model, s.Limits, s.InstructionLabels = f.fixed.Model, f.fixed.Limits, f.fixed.InstructionLabels
	s.Requested = f.fixed.Requested
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

// EntryBefore returns the number, counted from 1, of the last element of log whose first line has a
// phase less than phase, or 1 if there is none. All changes of that phase and of later ones are in
// that element or in later ones.
func EntryBefore(log [][]byte, phase int64) int64 {
	for n := len(log); n > 1; n-- {
		var e struct {
			Phase int64 `json:"phase"`
		}
		line, _, _ := bytes.Cut(log[n-1], []byte("\n"))
		if json.Unmarshal(line, &e) == nil && e.Phase < phase {
			return int64(n)
		}
	}
	return 1
}

// eachEntry calls fn for each line of a log.
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

// A builder applies entries to a state.
type builder struct {
	state    *State
	fixed    *Fixed
	base     []string // IDs of the messages of the run's thread
	messages []abi.Message
	shared   bool // other lists share messages, so they must not be overwritten
	calls    []CallState
	inner    map[int]*ChildLog
	phase    int64
	records  []PhaseDelta // changes of the current phase
}

// add applies one line of a log to the state.
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
		if f.fixed == nil {
			f.base = idsOf(f.messages) // a line before the first entry has the messages of the run's thread
		}
		f.fixed = e.Fixed
	}
	if e.Live != nil {
		s.Usage, s.LastID, s.ModelCalls = e.Live.Usage, e.Live.LastID, e.Live.ModelCalls
		s.Streams, s.Observed, s.Revisions = e.Live.Streams, e.Live.Observed, e.Live.Revisions
		if e.Live.ToolCalls != nil {
			s.ToolCalls = e.Live.ToolCalls
		}
		if e.Live.Models != nil {
			s.Models = e.Live.Models
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

func idsOf(messages []abi.Message) (ids []string) {
	for i := range messages {
		ids = append(ids, messages[i].ID)
	}
	return ids
}

// edit applies a change of the messages.
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

// LogLines encodes entries as JSON, one per line.
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
