// Package tracing defines the interface of tracers of runs. Package host/telemetry has an
// implementation.
package tracing

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Tracer receives the operations of runs while they happen, for spans, timelines and metrics. Its
// methods are called concurrently. Their duration adds to that of the operation.
type Tracer interface {
	// Start is called before an operation. The operation and the operations within it use the
	// returned context. The returned function is called once, after the operation.
	Start(ctx context.Context, op Operation) (context.Context, func(Outcome))
}

// An OperationKind is the type of an operation.
type OperationKind string

// The kinds of operations.
const (
	OperationRun OperationKind = "run" // an agent's run, until it ends or pauses
	// OperationRequest is a request to a gateway, with the call of the model and the hooks around it: sets Model.
	OperationRequest OperationKind = "request"
	OperationHook    OperationKind = "hook"  // a hook call: sets Entry, Digest, Hook, and Call for the hooks of a tool call
	OperationModel   OperationKind = "model" // a call of the model itself: sets Model
	OperationTool    OperationKind = "tool"  // a call of the tool itself: sets Call
)

// An Operation is a unit of work within a run.
type Operation struct {
	Kind   OperationKind
	Run    abi.Run
	Entry  string
	Digest string // digest of the entry's module; empty for native Go
	Hook   abi.Hook
	Model  string
	Call   *abi.Call // the tool call, which must not be modified; nil if there is none
}

// An Outcome describes how an operation ended.
type Outcome struct {
	Err    error         // why the operation failed; nil if it succeeded, or if a hook or a tool answered with an error
	Fault  bool          // whether a hook faulted; Err is then the fault, and not the error of a call that the module made
	Failed *abi.Error    // the error with which a hook answered; nil if it answered without one
	Waited time.Duration // time that a hook spent in wrapped calls and host calls
	// Answer points to the answer of a hook, a type of package abi that must not be modified. It is nil if the
	// hook faulted or answered with an error.
	Answer any
	Cost

	Usage        *abi.Usage // usage of a model call
	FinishReason string     // finish reason of a model call or a run; empty if the run did not end
	IsError      bool       // whether the tool answered with an error
}

// A Cost is the fuel and the bytes that a hook call used.
type Cost struct {
	Fuel     int64
	BytesIn  int64 // bytes copied to the guest
	BytesOut int64 // bytes copied from the guest
	Memory   int64 // size of the guest's memory at the end, in bytes
}
