// Package wire defines the lines that the conformance kit and a host exchange. Each is one JSON
// object on one line, in UTF-8. The kit writes to the host's standard input and reads its
// standard output:
//
//	kit                       host
//	Hello                  →
//	                       ←  Hello
//	Request                →
//	                       ←  Line of type "event", "model_call", "tool_call" or "client", any number
//	                       ←  Line of type "result", "skipped" or "failed"
//	Request                →
//	…
//
// The kit closes the host's standard input after the last case; the host then exits.
package wire

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
)

// Protocol is the version of the protocol. The kit and the host send their versions, and the kit
// stops if they differ.
const Protocol = 1

// A Hello is the first line in each direction.
type Hello struct {
	Type     string `json:"type"` // "hello"
	Protocol int    `json:"protocol"`

	Host         string   `json:"host,omitempty"`         // from the host: its name and version, for the report
	Capabilities []string `json:"capabilities,omitempty"` // from the host: supported capabilities; "*" for all
}

// A Request is one case: an agent, its model, its tools and a conversation.
type Request struct {
	Type string `json:"type"` // "case"
	ID   string `json:"id"`   // the case's name; every line of the answer repeats it

	Agent *Agent `json:"agent"`
	// Resumed is the agent that resumes a paused run. The default is Agent.
	Resumed *Agent `json:"resumed,omitempty"`
	// Runs is the number of sequential runs with the same messages. They share the model's
	// replies, the tools' turns and the durable values. The default is 1.
	Runs  int    `json:"runs,omitempty"`
	RunID string `json:"run_id"` // the ID of each run

	// Metadata is the metadata of each run.
	Metadata map[string]abi.JSON `json:"metadata,omitempty"`

	Messages []abi.Message `json:"messages"` // the conversation so far, the input of each run
	Tools    []Tool        `json:"tools"`    // the tools of all agents of the case
	Model    []Reply       `json:"model"`    // the model's replies in order, one for each call
	// Answers are the answers to the run's pauses, in order. A run that pauses after the last
	// answer stays paused.
	Answers []Answer `json:"answers,omitempty"`
	// Client asks for the events as an AG-UI client receives them.
	Client bool `json:"client,omitempty"`
}

// An Agent is an agent of a case.
type Agent struct {
	Middlewares    []Middleware `json:"middlewares"` // in registration order
	Instruction    string       `json:"instruction,omitempty"`
	ReturnDirectly []string     `json:"return_directly,omitempty"` // tools whose result ends the run
	NoStream       bool         `json:"no_stream,omitempty"`       // the model's answers are not streamed
	TimeoutMS      int64        `json:"timeout_ms,omitempty"`      // time limit of a run; none if 0
	Limits         *Limits      `json:"limits,omitempty"`
	// Retries is the maximum number of retries of a failed model call whose error is retryable.
	// Retries have no delay.
	Retries   int      `json:"retries,omitempty"`
	Fallbacks []string `json:"fallbacks,omitempty"` // models to try after the first, in order; all give the same replies

	// Agents maps names to sub-agents. A sub-agent is a tool of this agent or, if its Transfer is
	// set, an agent to which this agent can transfer the conversation.
	Agents   map[string]*Agent `json:"agents,omitempty"`
	Transfer bool              `json:"transfer,omitempty"`

	Given []Middleware `json:"given,omitempty"` // middlewares that the caller adds to its run, after the agent's own

	KeepOrphanResults  bool `json:"keep_orphan_results,omitempty"` // keeps results without a call as text of the user
	ContinueOnError    bool `json:"continue_on_error,omitempty"`
	ContinueOnResponse bool `json:"continue_on_response,omitempty"`
}

// Limits are the limits of a run. Zero fields select the host's defaults, which must be high enough
// for all cases.
type Limits struct {
	MaxSteps    int            `json:"max_steps,omitempty"`
	ModelCalls  int            `json:"model_calls,omitempty"`
	ToolCalls   int            `json:"tool_calls,omitempty"`
	Tools       map[string]int `json:"tools,omitempty"`         // calls of a tool, by name
	OnLimit     string         `json:"on_limit,omitempty"`      // steps and model calls: "error" (default), "end" or "answer"
	OnToolLimit string         `json:"on_tool_limit,omitempty"` // tool calls: "error" (default), "end", "answer" or "refuse"
	// JournalBytes is the maximum number of bytes that the run may write to its journal. If it is
	// set, the host must use a journal.
	JournalBytes int64 `json:"journal_bytes,omitempty"`
}

// A Middleware is an entry of an agent's chain.
type Middleware struct {
	Name   string `json:"name"`   // the entry's name, which events quote
	Module string `json:"module"` // path of a module: a .wasm file, or a .ts file
	// Hooks lists the hooks that the host calls, out of those that the module exports. If Hooks is
	// nil, the host calls all exported hooks.
	Hooks  []abi.Hook      `json:"hooks,omitempty"`
	Config json.RawMessage `json:"config,omitempty"` // input of the configure hook
	// Ring is "outer", "tenant" (default) or "inner". Entries of outer rings precede those of inner ones.
	Ring    string   `json:"ring,omitempty"`
	OnFault string   `json:"on_fault,omitempty"` // "fail" (default) or "skip"
	Read    string   `json:"read,omitempty"`     // messages that the entry may read: "all" (default), "last" or "none"
	Grants  []string `json:"grants,omitempty"`   // "model", "tool:NAME", "set:model", "set:limits", "set:labels"
	When    *When    `json:"when,omitempty"`     // the runs and calls to which the entry applies; all by default
}

// A When restricts an entry to runs and calls that meet all of its conditions. A condition lists
// names or values, of which one must match. A trailing * matches anything.
type When struct {
	Agent    []string            `json:"agent,omitempty" yaml:"agent"`       // names of agents
	Metadata map[string][]string `json:"metadata,omitempty" yaml:"metadata"` // values of the run's metadata, by key
	Model    []string            `json:"model,omitempty" yaml:"model"`       // models, for hooks of model calls
	Tool     []string            `json:"tool,omitempty" yaml:"tool"`         // tools, for hooks of tool calls
}

// A Tool is a scripted tool.
type Tool struct {
	Name string `json:"name"`
	// Streams makes the tool stream its results: each turn sends its chunks.
	Streams bool `json:"streams,omitempty"`
	// Turns are the tool's reactions to its calls, in order. The last one is repeated for all
	// further calls.
	Turns []Turn `json:"turns"`
}

// A Turn is the behavior of a tool in one call. At most one of Text, Chunks and Panic is set. A
// streaming tool sends Chunks, and then fails if Error is set.
type Turn struct {
	After   string   `json:"after,omitempty"`   // first wait for a result of this tool, or for the run's end
	Cancels bool     `json:"cancels,omitempty"` // cancel the run, then return
	Text    string   `json:"text,omitempty"`
	Chunks  []string `json:"chunks,omitempty"`
	Error   string   `json:"error,omitempty"` // fail with this text
	Panic   string   `json:"panic,omitempty"` // crash with this text, as a defect in the tool's code does
}

// A Reply is the model's answer to one call: a message or an error, preceded by chunks.
type Reply struct {
	Message      *abi.Message `json:"message,omitempty"`
	FinishReason string       `json:"finish_reason,omitempty"` // set if Message is
	Usage        *abi.Usage   `json:"usage,omitempty"`
	Error        *abi.Error   `json:"error,omitempty"`
	// Chunks are streamed before the message or the error. If there are none, the message is
	// streamed in pieces of at most Size characters, or in one piece if Size is 0.
	Chunks  []abi.Chunk `json:"chunks,omitempty"`
	Size    int         `json:"size,omitempty"`
	DelayMS int64       `json:"delay_ms,omitempty"` // delay before the chunks
	Hang    bool        `json:"hang,omitempty"`     // after the chunks, wait for the end of the run
}

// An Answer is the answer to the interrupts of one pause.
type Answer struct {
	Call  string          `json:"call,omitempty"` // restricts the answer to the interrupt of this tool call
	Value json.RawMessage `json:"value"`
}

// A Line is one line of a host's answer to a [Request].
type Line struct {
	Type string `json:"type"` // "event", "model_call", "tool_call", "client", "result", "skipped" or "failed"
	ID   string `json:"id"`   // the ID of the request

	Event *abi.Event `json:"event,omitempty"` // for "event": the next event that the caller of the run receives
	// ModelCall, for "model_call", is the next request that reached the model. Each retry and each
	// fallback is a request of its own.
	ModelCall *ModelCall `json:"model_call,omitempty"`
	// ToolCall, for "tool_call", is the next call that reached a tool.
	ToolCall *ToolCall       `json:"tool_call,omitempty"`
	Client   json.RawMessage `json:"client,omitempty"` // for "client": the next event that an AG-UI client receives

	State   []abi.Message `json:"state,omitempty"`   // for "result": the messages at the end of the last run
	Refused string        `json:"refused,omitempty"` // for "result": why the agent cannot be built; nothing ran
	Reason  string        `json:"reason,omitempty"`  // "skipped": what the host does not support; "failed": the error
}

// A ModelCall is a request that reached the model.
type ModelCall struct {
	Model    string        `json:"model"` // "scripted", or the name of a fallback
	Params   abi.Params    `json:"params,omitempty"`
	Tools    []string      `json:"tools,omitempty"` // names of the declared tools, in order
	Messages []abi.Message `json:"messages"`
}

// A ToolCall is a call that reached a tool, in the order in which the turns of the tool began.
type ToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object in a string, exactly as the tool received it
}

// An Outcome is everything that a host reports about one case.
type Outcome struct {
	// Skipped is the reason why the host does not support the case. If it is not empty, the other
	// fields are ignored.
	Skipped string

	Events     []abi.Event
	ModelCalls []ModelCall
	ToolCalls  []ToolCall
	Client     []json.RawMessage
	State      []abi.Message
	Refused    string
}
