package abi

import (
	"maps"
)

// An EventType says what an event tells.
type EventType string

// The types of events.
const (
	EventRunStarted  EventType = "run_started"
	EventStepStarted EventType = "step_started"
	EventChunk       EventType = "chunk"       // Chunk
	EventMessage     EventType = "message"     // Message, Replaced
	EventToolCall    EventType = "tool_call"   // Call
	EventToolResult  EventType = "tool_result" // Call, Result, Source
	EventCustom      EventType = "custom"      // Entry, Hook, Name, Data
	EventLog         EventType = "log"         // Entry, Hook, Level, Text
	EventFault       EventType = "fault"       // Entry, Digest, Hook, Stage, Cause, Limit, Value, Action, Stderr
	// EventModelAttempt tells of a model call that failed inside, at the model,
	// and is made again: Model, Attempt, Error, DelayMS, Next. It never comes
	// after a part of the answer was delivered.
	EventModelAttempt EventType = "model_attempt"
	EventLimit        EventType = "limit"    // Limit, Value, Action, and for a tool's own limit Name
	EventTransfer     EventType = "transfer" // From, Agent, Model
	EventChild        EventType = "child"    // Call, Event: what happened in a run that this call made
	EventStepFinished EventType = "step_finished"
	EventRunPaused    EventType = "run_paused"   // Interrupts; the last of a run that waits for answers
	EventRunResumed   EventType = "run_resumed"  // Reason; a run whose process was gone goes on: chunks after the last message come again
	EventRunFinished  EventType = "run_finished" // FinishReason, Message, Usage, Error, StoppedBy, Hook, Reason, StopCode, Entries
)

// EventTypes lists the types of events.
func EventTypes() []EventType {
	return []EventType{EventRunStarted, EventStepStarted, EventChunk, EventMessage, EventToolCall, EventToolResult,
		EventCustom, EventLog, EventFault, EventModelAttempt, EventLimit, EventTransfer, EventChild,
		EventStepFinished, EventRunPaused, EventRunResumed, EventRunFinished}
}

// An Event tells of one thing that happened in a run. Which fields it has
// depends on its type.
type Event struct {
	Type   EventType `json:"type"`
	Seq    int64     `json:"seq"` // from 1, without gaps
	Run    string    `json:"run"`
	TimeMS int64     `json:"time_ms"` // Unix time, milliseconds
	Step   int       `json:"step,omitempty"`
	StepID string    `json:"step_id,omitempty"`

	Agent  string `json:"agent,omitempty"`  // run_started; transfer: who goes on
	Model  string `json:"model,omitempty"`  // run_started, transfer; model_attempt: that was asked
	Parent string `json:"parent,omitempty"` // run_started: the run that this one is a tool of
	From   string `json:"from,omitempty"`   // transfer: the agent that handed over
	Event  *Event `json:"event,omitempty"`  // child

	Attempt int    `json:"attempt,omitempty"`  // model_attempt: the number of the one that failed, from 1
	Next    string `json:"next,omitempty"`     // model_attempt: the model that is asked next
	DelayMS int64  `json:"delay_ms,omitempty"` // model_attempt: the pause before that, milliseconds

	Chunk    *Chunk   `json:"chunk,omitempty"`
	Message  *Message `json:"message,omitempty"`
	Replaced bool     `json:"replaced,omitempty"` // the message is not what its chunks said

	Call   *Call   `json:"call,omitempty"`
	Result *Result `json:"result,omitempty"`
	Source string  `json:"source,omitempty"` // tool_result; run_finished: whose failure of the model call it was

	Entry  string   `json:"entry,omitempty"`
	Hook   Hook     `json:"hook,omitempty"`
	Name   string   `json:"name,omitempty"`
	Data   JSON     `json:"data,omitempty"`
	Level  string   `json:"level,omitempty"` // debug, info, warn, error
	Text   string   `json:"text,omitempty"`
	Digest string   `json:"digest,omitempty"` // of the module's bytes
	Stage  string   `json:"stage,omitempty"`  // breaker, input, hook, host_call, answer
	Cause  string   `json:"cause,omitempty"`
	Limit  string   `json:"limit,omitempty"`  // that was passed
	Value  int64    `json:"value,omitempty"`  // of that limit: bytes, a count, or nanoseconds
	Action string   `json:"action,omitempty"` // what became of it: run_ended, skipped, denied, …
	Stderr []string `json:"stderr,omitempty"` // the guest's last lines

	FinishReason string       `json:"finish_reason,omitempty"`
	Usage        *Usage       `json:"usage,omitempty"`
	Error        *Error       `json:"error,omitempty"`
	StoppedBy    string       `json:"stopped_by,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	StopCode     string       `json:"stop_code,omitempty"`
	Entries      []EntryStats `json:"entries,omitempty"`

	Interrupts []Pending `json:"interrupts,omitempty"`
	ExpiresMS  int64     `json:"expires_ms,omitempty"` // run_paused: until when it may be answered, Unix time, milliseconds
	Resume     string    `json:"resume,omitempty"`     // where the run can be resumed from, if the host keeps it
}

// EntryStats tell what one entry of the chain used in a run.
type EntryStats struct {
	Entry     string         `json:"entry"`
	Agent     string         `json:"agent,omitempty"`  // whose chain it is in, if the run had several agents
	Digest    string         `json:"digest,omitempty"` // of the module's bytes; empty for native Go
	Hooks     map[Hook]int64 `json:"hooks,omitempty"`  // calls of each hook
	Calls     int64          `json:"calls"`
	Faults    int64          `json:"faults,omitempty"`
	WallUS    int64          `json:"wall_us"` // time in its hooks, without that of what they wrap, microseconds
	BytesIn   int64          `json:"bytes_in"`
	BytesOut  int64          `json:"bytes_out"`
	Fuel      int64          `json:"fuel"`
	Instances int64          `json:"instances,omitempty"`
	// Calls that it made of its own, through the imports model and tool.
	ModelCalls int64 `json:"model_calls,omitempty"`
	ToolCalls  int64 `json:"tool_calls,omitempty"`
}

// Log levels, as numbers of the log import.
const (
	LogDebug = iota
	LogInfo
	LogWarn
	LogError
)

// LogLevel returns the name of a level of the log import; numbers that are
// none count as debug or error.
func LogLevel(n int32) string {
	switch {
	case n <= LogDebug:
		return "debug"
	case n == LogInfo:
		return "info"
	case n == LogWarn:
		return "warn"
	default:
		return "error"
	}
}

// Clone returns a copy that later counts do not change.
func (s *EntryStats) Clone() EntryStats {
	c := *s
	c.Hooks = maps.Clone(s.Hooks)
	return c
}
