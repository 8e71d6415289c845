// Package runlog defines the state of a run and the log of its changes. A run writes a
// [State] as entries of what changed; [Restore] puts the entries together again, and
// [ReadHistory] tells from them what the run did in each phase. The package does not run
// agents, and does not know where the log is kept.
package runlog

import (
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// A Phase is where in its loop a run is.
type Phase string

// The phases of a run.
const (
	PhaseStart   Phase = "start"   // before_agent
	PhaseStep    Phase = "step"    // a step begins
	PhaseRewrite Phase = "rewrite" // before_model_rewrite_state
	PhaseModel   Phase = "model"   // the model call
	PhaseDecide  Phase = "decide"  // after_model_rewrite_state, and what follows from it
	PhaseTools   Phase = "tools"   // tool calls
	PhaseRound   Phase = "round"   // after_tools, and what follows from it
	PhaseTurn    Phase = "turn"    // the turn goes to another agent
	PhaseEnd     Phase = "end"
)

// A State is the whole of a run, as a plain value: what is not in it does not
// matter to how the run goes on.
type State struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Parent   string     `json:"parent,omitempty"`
	Metadata abi.Params `json:"metadata,omitempty"`
	With     []string   `json:"with,omitempty"` // the middlewares that [Agent.With] added
	Phase    Phase      `json:"phase"`

	Step     int       `json:"step"`
	StepID   string    `json:"step_id,omitempty"`
	StepOpen bool      `json:"step_open,omitempty"` // it has begun and not ended
	Usage    abi.Usage `json:"usage"`
	Deadline time.Time `json:"deadline,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // of a paused run: it goes on until then

	ModelCalls int            `json:"model_calls,omitempty"`
	ToolCalls  map[string]int `json:"tool_calls,omitempty"` // that count, of each tool
	// Last is the limit for which the model is told of no tools any more, and
	// Deaf whether it called some nevertheless.
	LastLimit       *ending.LimitError `json:"last,omitempty"`
	CalledPastLimit bool               `json:"deaf,omitempty"`

	Instruction    string     `json:"instruction"`
	Tools          []abi.Tool `json:"tools"`
	Active         []string   `json:"active"` // of the tools, those that the model is told of
	Offered        []string   `json:"told"`   // those of the last request: what may be called
	ReturnDirectly []string   `json:"return_directly"`

	Messages *message.List `json:"messages"`
	Input    []string      `json:"input"`  // the ids of the messages that the run began with
	Rounds   []string      `json:"rounds"` // the ids of the messages whose calls were run
	Locals   *local.Values `json:"locals"`
	// Record is what has been done in the phase: it matters to a paused run.
	Record  *record.Record `json:"record"`
	Calls   []CallState    `json:"calls,omitempty"` // of the current round
	Respond *abi.Message   `json:"respond,omitempty"`

	// Finish is the model's own finish reason of the last response.
	Finish string `json:"finish,omitempty"`
	// Streamed are the chunks of the last response that the caller got.
	Streamed []abi.Chunk `json:"streamed,omitempty"`
	LastID   int64       `json:"last_id"` // of messages
	// Outcome is how the run ended, while after_agent has yet to see it.
	Outcome *Outcome `json:"outcome,omitempty"`
	Streams int64    `json:"streams"` // so far
	// Used is what entries of its chain used in earlier processes.
	Used []abi.EntryStats `json:"used,omitempty"`
	// Observed is the number of the last event that the observers were told of.
	Observed int64 `json:"observed,omitempty"`
	// Modules are those with which a run paused: it goes on with the same alone. Who
	// sets it to nil lets the run go on with others.
	Modules []journal.Pin `json:"modules,omitempty"`
	// Revisions is the number of the last revision of a message list. A resumed run counts on
	// from it: run-local values may hold earlier ones.
	Revisions int64 `json:"revisions,omitempty"`
	LastSeq   int64 `json:"last_seq"`
}

// A CallState is one call of a round and, once there, what came of it.
type CallState struct {
	Call      abi.Call `json:"call"`
	Announced bool     `json:"told,omitempty"`    // its tool_call event was sent
	Started   bool     `json:"started,omitempty"` // the tool itself was called
	Ran       bool     `json:"ran,omitempty"`     // and came to its end
	// Streamed says that the caller got chunks of its result.
	Streamed bool `json:"streamed,omitempty"`
	// Beyond is the limit that the call is beyond: it is not run.
	OverLimit *ending.LimitError `json:"beyond,omitempty"`
	// Child is the run that the call made, while that waits for answers, or when a
	// journal had it and its process was gone; Kept is then set.
	Child     *State          `json:"child,omitempty"`
	Journaled *JournaledChild `json:"kept,omitempty"`
	// Runs counts the runs that the call made, where its tool is an agent: hooks may
	// have had it made again.
	Runs int `json:"runs,omitempty"`
	// Transfer is the agent that the call hands the conversation over to.
	Transfer string        `json:"transfer,omitempty"`
	Result   *abi.Result   `json:"result,omitempty"`
	Source   string        `json:"source,omitempty"`
	Messages []abi.Message `json:"messages,omitempty"`
}

func (s *State) Tool(name string) (abi.Tool, bool) {
	i := slices.IndexFunc(s.Tools, func(t abi.Tool) bool { return t.Name == name })
	if i < 0 {
		return abi.Tool{}, false
	}
	return s.Tools[i], true
}

// activeTools are the tools that the model is told of.
func (s *State) ActiveTools() []abi.Tool {
	out := make([]abi.Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		if slices.Contains(s.Active, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// An outcome is how a run ended: run_finished before after_agent has seen it,
// and the text of its error.
type Outcome struct {
	abi.Event
	Err string `json:"err,omitempty"`
}

// overhead is about what a value takes beside its text.
const overhead = 256

// size returns about how many bytes the host holds of a state.
func (s *State) Size() int64 {
	n := s.Messages.Size() + int64(len(s.Instruction))
	for i := range s.Tools {
		t := &s.Tools[i]
		n += int64(overhead + len(t.Name) + len(t.Description) + len(t.Parameters))
	}
	n += int64(len(s.Input)+len(s.Rounds)) * 32 // ids
	for i := range s.Streamed {
		c := &s.Streamed[i]
		n += int64(overhead + len(c.Text) + len(c.Arguments))
		if c.Part != nil {
			n += size.Part(c.Part)
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		n += int64(overhead+len(c.Call.Arguments)) + size.Result(c.Result)
		for j := range c.Messages {
			n += size.Message(&c.Messages[j])
		}
	}
	return n
}
