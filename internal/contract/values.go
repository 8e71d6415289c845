package contract

import "github.com/agent-runner/agent-runner/abi"

// Codes returns all codes.
func Codes() []abi.Code {
	return []abi.Code{
		abi.CodeInvalid,
		abi.CodeDenied,
		abi.CodeLimit,
		abi.CodeNotFound,
		abi.CodeConflict,
		abi.CodeUnavailable,
		abi.CodeModel,
		abi.CodeTool,
		abi.CodeInternal,
	}
}

// EventTypes lists the types of events.
func EventTypes() []abi.EventType {
	return []abi.EventType{
		abi.EventRunStarted,
		abi.EventStepStarted,
		abi.EventChunk,
		abi.EventMessage,
		abi.EventToolCall,
		abi.EventToolResult,
		abi.EventCustom,
		abi.EventLog,
		abi.EventFault,
		abi.EventModelAttempt,
		abi.EventLimit,
		abi.EventTransfer,
		abi.EventChild,
		abi.EventStepFinished,
		abi.EventRunPaused,
		abi.EventRunResumed,
		abi.EventRunFinished,
	}
}

// The levels of the log import.
const (
	LogDebug = iota
	LogInfo
	LogWarn
	LogError
)

// LogLevel returns the name of a level of the log import. Numbers below LogDebug count as
// debug, numbers above LogError as error.
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

// The values of [abi.Description].Messages: how a module's inputs contain a list of messages.
const (
	MessagesFull = "full" // all messages, as items; the default of a module without describe
	MessagesLazy = "lazy" // no messages; the module requests the ranges it wants
	MessagesNone = "none" // no messages, and the module never requests any
)
