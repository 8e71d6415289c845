// Package runlog defines the state of a run and the log of its changes. A run stores each change of
// its [State] as an [Entry]. [Restore] rebuilds the state from the entries, and [ReadHistory]
// returns the calls of each phase. The package does not run agents, and does not depend on the
// store of the log.
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

// A Phase is a position in the loop of a run.
type Phase string

// Phases of a run.
const (
	PhaseStart   Phase = "start"   // before_agent
	PhaseStep    Phase = "step"    // a step begins
	PhaseRewrite Phase = "rewrite" // before_model_rewrite_state
	PhaseModel   Phase = "model"   // the model call
	PhaseDecide  Phase = "decide"  // after_model_rewrite_state and the decision how to continue
	PhaseTools   Phase = "tools"   // tool calls
	PhaseRound   Phase = "round"   // after_tools and the decision how to continue
	PhaseTurn    Phase = "turn"    // transfer to another agent
	PhaseEnd     Phase = "end"
)

// A State is the state of a run. It can be encoded as JSON, and a resumed run needs no other data.
type State struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Parent   string     `json:"parent,omitempty"`
	Metadata abi.Params `json:"metadata,omitempty"`
	Request  string     `json:"request,omitempty"` // digest of the request that started the run, if its caller gave one
	With     []string   `json:"with,omitempty"`    // names of the middlewares that Agent.With added
	Phase    Phase      `json:"phase"`

	Step     int       `json:"step"`
	StepID   string    `json:"step_id,omitempty"`
	StepOpen bool      `json:"step_open,omitempty"` // the step has started and not finished
	Usage    abi.Usage `json:"usage"`
	// Models has the tokens by model; see [journal.MaxModels].
	Models   map[string]abi.Usage `json:"models,omitempty"`
	Deadline time.Time            `json:"deadline,omitzero"`
	Expires  time.Time            `json:"expires,omitzero"` // a paused run can be resumed until then

	ModelCalls int            `json:"model_calls,omitempty"`
	ToolCalls  map[string]int `json:"tool_calls,omitempty"` // counted calls by tool
	// LastLimit is the limit after which the model is offered no tools, or nil. Its JSON key is the
	// field's name in an older version.
	LastLimit *ending.LimitError `json:"last,omitempty"`
	// CalledPastLimit is set if the model called tools after LastLimit. Its JSON key is the field's
	// name in an older version.
	CalledPastLimit bool `json:"deaf,omitempty"`

	// AskedAgain is set if the model was asked again for its final answer, because the first answer
	// did not pass the check of the client's request.
	AskedAgain bool `json:"asked_again,omitempty"`

	// Model is the model that before_agent set for the agent's calls, or nil for the agent's own.
	Model *Model `json:"model,omitempty"`
	// Requested are the parameters that the client's request set, or nil.
	Requested *Requested `json:"requested,omitempty"`
	// Limits are the limits that before_agent set, or nil if the limits of the first agent apply.
	Limits *abi.RunLimits `json:"limits,omitempty"`

	Instruction string `json:"instruction"`
	// InstructionLabels are the labels of the instruction if before_agent changed it.
	InstructionLabels []string   `json:"instruction_labels,omitempty"`
	Tools             []abi.Tool `json:"tools"`
	Active            []string   `json:"active"` // names of the tools that the model is offered
	// Offered has the names of the tools of the last request, which the model may call. Its JSON
	// key is the field's name in an older version.
	Offered        []string `json:"told"`
	ReturnDirectly []string `json:"return_directly"`

	Messages *message.List `json:"messages"`
	// Base is the number of the thread's messages with which the run began, which the log does not
	// contain. Unchanged is the number of them that are still the same.
	Base      int           `json:"base,omitempty"`
	Unchanged int           `json:"unchanged,omitempty"`
	Input     []string      `json:"input"`  // ids of the input messages
	Rounds    []string      `json:"rounds"` // ids of the messages whose calls were executed
	Locals    *local.Values `json:"locals"`
	// Record has the calls that were recorded in the current phase. A resumed run replays them.
	Record  *record.Record `json:"record"`
	Calls   []CallState    `json:"calls,omitempty"` // calls of the current round
	Respond *abi.Message   `json:"respond,omitempty"`

	// Finish is the model's finish reason of the last response.
	Finish string `json:"finish,omitempty"`
	// Streamed has the chunks of the last response that the caller received.
	Streamed []abi.Chunk `json:"streamed,omitempty"`
	LastID   int64       `json:"last_id"` // number of the last generated message ID
	// Outcome is set when the loop has ended. A process that resumes the run then only runs the
	// hooks at the end of the run.
	Outcome *Outcome `json:"outcome,omitempty"`
	Streams int64    `json:"streams"` // number of streams so far
	// Used has the statistics of the chain's entries in earlier processes.
	Used []abi.EntryStats `json:"used,omitempty"`
	// Observed is the number of the last event that the observers have received.
	Observed int64 `json:"observed,omitempty"`
	// Modules are the modules with which the run paused. The run is resumed only with the same
	// modules, or with any modules if Modules is nil.
	Modules []journal.Pin `json:"modules,omitempty"`
	// Revisions is the number of the last revision of a message list. A resumed run continues from
	// this number, because run-local values may contain earlier revisions.
	Revisions int64 `json:"revisions,omitempty"`
	LastSeq   int64 `json:"last_seq"`

	Window
}

// A Model is the name of a model, with the parameters of its calls.
type Model struct {
	Name   string     `json:"name"`
	Params abi.Params `json:"params,omitempty"`
}

// Requested are the parameters of model calls that a client's request set.
type Requested struct {
	Params abi.Params `json:"params"`
}

// A Window is the part of a run whose stored text is erased together. The first window starts with
// the run, the others with a model call. A window ends when the next model call starts, or with the
// run.
type Window struct {
	Phase int64 `json:"window,omitempty"`      // number of the window's first phase
	From  int   `json:"window_from,omitempty"` // index of the window's first message
	// Removed is set if modules have changed or removed a message of the window, or an answer of
	// the model or of a tool in it.
	Removed bool `json:"removed,omitempty"`
}

// A CallState is a tool call of a round and its outcome so far.
type CallState struct {
	Call abi.Call `json:"call"`
	// Announced is set if the tool_call event was sent. Its JSON key is the field's name in an
	// older version.
	Announced bool `json:"told,omitempty"`
	Started   bool `json:"started,omitempty"` // the tool itself was called
	Ran       bool `json:"ran,omitempty"`     // the tool returned
	// Streamed is set if the caller received chunks of the result.
	Streamed bool `json:"streamed,omitempty"`
	// OverLimit is the limit that the call exceeds, or nil. A call that exceeds a limit is not
	// executed. The JSON key is the field's name in an older version.
	OverLimit *ending.LimitError `json:"beyond,omitempty"`
	// Child is the run of a sub-agent that the call started. It is set while that run waits for
	// answers, and after the run was restored from a journal. In the latter case Journaled is set
	// too. The JSON key of Journaled is the field's name in an older version.
	Child     *State          `json:"child,omitempty"`
	Journaled *JournaledChild `json:"kept,omitempty"`
	// Runs is the number of runs that a call of a sub-agent has started. There are several if hooks
	// repeat the call.
	Runs int `json:"runs,omitempty"`
	// Transfer is the name of the agent to which the call transfers the conversation.
	Transfer string        `json:"transfer,omitempty"`
	Result   *abi.Result   `json:"result,omitempty"`
	Source   string        `json:"source,omitempty"`
	Messages []abi.Message `json:"messages,omitempty"`
}

// ToolOf returns the run's tool called name. It reports false if the run has no such tool.
func ToolOf(s *State, name string) (abi.Tool, bool) {
	i := slices.IndexFunc(s.Tools, func(t abi.Tool) bool { return t.Name == name })
	if i < 0 {
		return abi.Tool{}, false
	}
	return s.Tools[i], true
}

// ActiveTools returns the tools that the model is offered.
func ActiveTools(s *State) []abi.Tool {
	out := make([]abi.Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		if slices.Contains(s.Active, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// An Outcome is a run's run_finished event before after_agent, with the text of the run's error.
type Outcome struct {
	abi.Event
	Err string `json:"err,omitempty"`
}

// overhead is the approximate size of a value without its text, in bytes.
const overhead = 256

// SizeOf returns the approximate size of the state in memory, in bytes.
func SizeOf(s *State) int64 {
	n := s.Messages.Size() + int64(len(s.Instruction))
	if s.Model != nil {
		n += size.Params(s.Model.Params)
	}
	if s.Requested != nil {
		n += size.Params(s.Requested.Params)
	}
	if s.Limits != nil {
		n += int64(len(s.Limits.Tools)) * overhead
	}
	for i := range s.Tools {
		t := &s.Tools[i]
		n += int64(overhead + len(t.Name) + len(t.Description) + len(t.Parameters))
	}
	n += int64(len(s.Input)+len(s.Rounds)) * 32 // estimate 32 bytes for each ID
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
