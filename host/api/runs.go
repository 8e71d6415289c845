package api

import (
	"encoding/json"
	"time"
)

// A Run describes the state of a run.
type Run struct {
	ID           string                     `json:"id"`
	Agent        string                     `json:"agent"`
	Version      int64                      `json:"version,omitempty" doc:"The agent's version."`
	Rollout      string                     `json:"rollout,omitempty" doc:"The rollout that chose the version."`
	Arm          string                     `json:"arm,omitempty" enum:"stable,canary" doc:"The arm of the rollout."`
	Title        string                     `json:"title,omitempty" doc:"The last user message at the start of the run, truncated."`
	Thread       string                     `json:"thread,omitempty" doc:"The thread that the run continues."`
	Subject      string                     `json:"subject,omitempty" doc:"The end user for whom the run is: the subject of the token that started it, or of its thread."`
	Status       string                     `json:"status" enum:"queued,running,paused,finished,quarantined" doc:"A paused run waits for answers to its interrupts. A quarantined run is not resumed: it appears to have crashed its server."`
	FinishReason string                     `json:"finish_reason,omitempty"`
	Step         int                        `json:"step"`
	Usage        Tokens                     `json:"usage"`
	Cost         float64                    `json:"cost,omitempty" doc:"What the tokens cost, in units of the currency, by the operator's prices when they were used. Tokens of models without a price cost nothing."`
	Currency     string                     `json:"currency,omitempty" doc:"The currency of the cost, such as USD. Absent if the operator has set no prices."`
	TookMS       int64                      `json:"took_ms" doc:"Time in which the run was in progress, without pauses, in milliseconds."`
	Faults       int64                      `json:"faults" doc:"Number of faults of modules."`
	Denials      int64                      `json:"denials" doc:"Number of tool calls that gates or approvers denied."`
	Fuel         int64                      `json:"fuel" doc:"Fuel that the modules used."`
	JournalBytes int64                      `json:"journal_bytes" doc:"Bytes that the run wrote to the journal."`
	Interrupts   []Interrupt                `json:"interrupts,omitempty"`
	Output       string                     `json:"output,omitempty" doc:"The text of the answer. Only if the run is requested by its id."`
	Error        string                     `json:"error,omitempty" doc:"Why the run has no answer."`
	LastEvent    int64                      `json:"last_event" doc:"The number of the run's last event."`
	Modules      []RunModule                `json:"modules,omitempty"`
	Metadata     map[string]json.RawMessage `json:"metadata,omitempty" doc:"The caller's metadata."`
	Created      time.Time                  `json:"created"`
	Updated      time.Time                  `json:"updated"`
}

// Tokens counts the tokens that models read and wrote.
type Tokens struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// An Interrupt is a question that pauses a run until it is answered.
type Interrupt struct {
	ID      string          `json:"id" doc:"The id to answer the interrupt with."`
	Agent   string          `json:"agent,omitempty" doc:"The sub-agent that waits. Empty for the agent itself."`
	Entry   string          `json:"entry,omitempty" doc:"The module that asks. Empty for a tool."`
	Hook    string          `json:"hook,omitempty" doc:"The hook that asks. For gate_tool, the answer is approve, deny, or a decision with other arguments."`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Call    *ToolCall       `json:"call,omitempty" doc:"The tool call in question, with its exact arguments."`
	Client  bool            `json:"client,omitempty" doc:"The tool runs in the client. The answer is the tool's result."`
}

// A ToolCall is the tool call that an interrupt is about.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON, as the model wrote it."`
}

// A RunModule is a module that a run uses from its start to its end.
type RunModule struct {
	Entry  string `json:"entry"`
	Digest string `json:"digest,omitempty"`
}

// A StartRun is a request that starts a run, or resumes a paused one.
type StartRun struct {
	Agent       string                     `json:"agent,omitempty" doc:"The agent to run: its name, name@version or name@alias. A name alone means the alias stable, or the newest version if there is no such alias."`
	Version     int64                      `json:"version,omitempty" doc:"The agent's version, unless agent names it."`
	Input       string                     `json:"input,omitempty" doc:"The user's message."`
	Messages    []json.RawMessage          `json:"messages,omitempty" doc:"A conversation in OpenAI's format, instead of input."`
	Metadata    map[string]json.RawMessage `json:"metadata,omitempty" doc:"Metadata of the caller, at most 64 KiB. Modules can read it. GET /v1/runs finds runs by the first 16 members, in the order of their keys, that are strings, numbers or booleans of at most 256 bytes, and whose keys have at most 64 letters, digits, '.', '_' and '-'."`
	Thread      string                     `json:"thread,omitempty" doc:"The thread that the run continues: it starts with the messages of the thread. Its agent is the default of agent."`
	Concurrency string                     `json:"concurrency,omitempty" enum:"reject,queue,cancel" doc:"What happens while another run of the thread is unfinished: the request is rejected (409), the run waits in a queue, or it cancels the earlier runs. Default: the thread's."`
	Run         string                     `json:"run,omitempty" doc:"The run to resume."`
	Answers     map[string]json.RawMessage `json:"answers,omitempty" doc:"Answers to interrupts, by their ids."`
	Disconnect  string                     `json:"disconnect,omitempty" enum:"continue,cancel" doc:"Whether the run continues or is canceled when its last follower disconnects. Default: continue."`
}

// A RunHistory holds the messages and the recorded steps of a run.
type RunHistory struct {
	Input    json.RawMessage `json:"input" doc:"The initial messages, in OpenAI's format."`
	Messages json.RawMessage `json:"messages" doc:"The current conversation."`
	Phases   json.RawMessage `json:"phases" doc:"The recorded steps, by phase. Each step has its entry, its kind, its answer, and its changes to the messages of the run or, for before_model, of the request. A step with erased: true has lost its answer, because modules changed or removed text; serve --keep-originals keeps such answers."`
	Answered json.RawMessage `json:"answered" doc:"Answers to interrupts."`
}

// A QuarantinedRun is a run that no server resumes because it appears to have crashed its
// server.
type QuarantinedRun struct {
	Run         string    `json:"run"`
	Tenant      string    `json:"tenant"`
	Node        string    `json:"node" doc:"The machine of the server that crashed."`
	Reason      string    `json:"reason"`
	HeldBytes   int64     `json:"held_bytes" doc:"Memory that the server held for the run at its last heartbeat."`
	ShareBytes  int64     `json:"share_bytes" doc:"Memory that the server may hold for the run."`
	UsedBytes   int64     `json:"used_bytes" doc:"Memory that the server used at its last heartbeat."`
	LimitBytes  int64     `json:"limit_bytes" doc:"The server's memory limit."`
	OutOfMemory bool      `json:"out_of_memory" doc:"The server was short of memory at its last heartbeat."`
	Created     time.Time `json:"created"`
}
