package abi

// An EventType is the type of an event.
type EventType string

// The types of events, with the fields that each sets.
const (
	EventRunStarted  EventType = "run_started"
	EventStepStarted EventType = "step_started"
	EventChunk       EventType = "chunk"       // Chunk
	EventMessage     EventType = "message"     // Message, Replaced
	EventToolCall    EventType = "tool_call"   // Call
	EventToolResult  EventType = "tool_result" // Call, Result, Source
	EventDecision    EventType = "decision"    // Entry, Hook, Digest, Decision
	EventCustom      EventType = "custom"      // Entry, Hook, Name, Data
	EventLog         EventType = "log"         // Entry, Hook, Level, Text
	EventFault       EventType = "fault"       // Entry, Digest, Hook, Stage, Cause, Limit, Value, Action, Stderr
	// EventModelAttempt reports that a model call failed at the model and is retried: Model,
	// Attempt, Error, DelayMS, Next. It never occurs after a part of the answer was delivered.
	EventModelAttempt EventType = "model_attempt"
	EventLimit        EventType = "limit"    // Limit, Value, Action; Name for a tool's own limit
	EventRepair       EventType = "repair"   // Action; Call, or Value for several repairs
	EventTransfer     EventType = "transfer" // From, Agent, Model
	EventChild        EventType = "child"    // Call, Event: an event of a run that this call started
	EventLabels       EventType = "labels"   // Entry, Hook, Digest, Data: an entry removed labels of a message
	EventStepFinished EventType = "step_finished"
	EventRunPaused    EventType = "run_paused"   // Interrupts; the last event of a run that waits for answers
	EventRunResumed   EventType = "run_resumed"  // Reason; a run resumes after its process ended: chunks after the last message are repeated
	EventRunFinished  EventType = "run_finished" // FinishReason, Message, Usage, Error, StoppedBy, Hook, Reason, StopCode, Entries
)

// An Event reports one thing that happened in a run. Its type determines which fields are
// set.
type Event struct {
	Type   EventType `json:"type"`
	Seq    int64     `json:"seq"` // starts at 1, without gaps
	Run    string    `json:"run"`
	TimeMS int64     `json:"time_ms"` // Unix time in milliseconds
	Step   int       `json:"step,omitempty"`
	StepID string    `json:"step_id,omitempty"`

	Agent  string `json:"agent,omitempty"`  // run_started; transfer: the agent that continues
	Model  string `json:"model,omitempty"`  // run_started, transfer; model_attempt: the model that failed
	Parent string `json:"parent,omitempty"` // run_started: the parent run, if this run is a tool call of another
	From   string `json:"from,omitempty"`   // transfer: the agent that transferred the conversation
	Event  *Event `json:"event,omitempty"`  // child

	Attempt int    `json:"attempt,omitempty"`  // model_attempt: number of the failed attempt, from 1
	Next    string `json:"next,omitempty"`     // model_attempt: the model to try next
	DelayMS int64  `json:"delay_ms,omitempty"` // model_attempt: delay before the next attempt, in milliseconds

	Chunk    *Chunk   `json:"chunk,omitempty"`
	Message  *Message `json:"message,omitempty"`
	Replaced bool     `json:"replaced,omitempty"` // the message differs from its chunks

	Call   *Call   `json:"call,omitempty"`
	Result *Result `json:"result,omitempty"`
	Source string  `json:"source,omitempty"` // tool_result; run_finished: the source of a failed model call

	Decision *Decision `json:"decision,omitempty"`

	Entry  string   `json:"entry,omitempty"`
	Hook   Hook     `json:"hook,omitempty"`
	Name   string   `json:"name,omitempty"`
	Data   JSON     `json:"data,omitempty"`
	Level  string   `json:"level,omitempty"` // debug, info, warn, error
	Text   string   `json:"text,omitempty"`
	Digest string   `json:"digest,omitempty"` // digest of the module's bytes
	Stage  string   `json:"stage,omitempty"`  // breaker, input, hook, host_call, answer
	Cause  string   `json:"cause,omitempty"`
	Limit  string   `json:"limit,omitempty"`  // the limit that was exceeded
	Value  int64    `json:"value,omitempty"`  // value of the exceeded limit: bytes, a count, or nanoseconds; repair: a count
	Action string   `json:"action,omitempty"` // how the host reacted: run_ended, skipped, denied, …
	Stderr []string `json:"stderr,omitempty"` // last lines of the guest's standard error

	FinishReason string       `json:"finish_reason,omitempty"`
	Usage        *Usage       `json:"usage,omitempty"`
	Error        *Error       `json:"error,omitempty"`
	StoppedBy    string       `json:"stopped_by,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	StopCode     string       `json:"stop_code,omitempty"`
	Entries      []EntryStats `json:"entries,omitempty"`

	Interrupts []Pending `json:"interrupts,omitempty"`
	ExpiresMS  int64     `json:"expires_ms,omitempty"` // run_paused: deadline for the answer, Unix time in milliseconds
	Resume     string    `json:"resume,omitempty"`     // reference for resuming the run, if the host persists it
}

// EntryStats counts what one entry of the chain used in a run.
type EntryStats struct {
	Entry     string         `json:"entry"`
	Agent     string         `json:"agent,omitempty"`  // the agent whose chain has the entry, if the run had several agents
	Digest    string         `json:"digest,omitempty"` // digest of the module's bytes; empty for native Go
	Hooks     map[Hook]int64 `json:"hooks,omitempty"`  // number of calls by hook
	Calls     int64          `json:"calls"`
	Faults    int64          `json:"faults,omitempty"`
	WallUS    int64          `json:"wall_us"` // microseconds in the entry's hooks, without the calls that they wrap
	BytesIn   int64          `json:"bytes_in"`
	BytesOut  int64          `json:"bytes_out"`
	Fuel      int64          `json:"fuel"`
	Instances int64          `json:"instances,omitempty"`
	// Calls that the module made through the imports "model" and "tool".
	ModelCalls int64 `json:"model_calls,omitempty"`
	ToolCalls  int64 `json:"tool_calls,omitempty"`
}
