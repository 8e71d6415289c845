// Package tracing defines what tracers learn about runs. It has no implementation:
// host/telemetry and tests provide them.
package tracing

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Tracer receives the operations of runs while they happen, for spans, timelines and
// metrics. Its methods are called concurrently, and their duration adds to that of the
// operation.
type Tracer interface {
	// Start is called before an operation. The operation and those within it use the
	// returned context. The returned function is called once, when the operation has
	// ended.
	Start(ctx context.Context, op Operation) (context.Context, func(Outcome))
}

// An OperationKind is the type of an operation.
type OperationKind string

// The kinds of operations.
const (
	OperationRun   OperationKind = "run"   // of an agent, until it ends or pauses
	OperationHook  OperationKind = "hook"  // Entry, Digest, Hook, and Call for the hooks of a tool call
	OperationModel OperationKind = "model" // the model itself: Model
	OperationTool  OperationKind = "tool"  // the tool itself: Call
)

// An Operation is something that a run does.
type Operation struct {
	Kind   OperationKind
	Run    abi.Run
	Entry  string
	Digest string // of the entry's module; empty for native Go
	Hook   abi.Hook
	Model  string
	Call   *abi.Call // not to be changed
}

// An Outcome describes how an operation ended.
type Outcome struct {
	Err    error         // nil where a hook's error, or a tool's, is an answer
	Fault  bool          // of a hook: the module is to blame, not what it asked for
	Failed *abi.Error    // that a hook answered
	Waited time.Duration // of a hook: for what it wrapped or asked for
	Cost

	Usage        *abi.Usage // of a model
	FinishReason string     // of a model or a run; empty: the run did not end
	IsError      bool       // the tool says so
}

// A Cost is what a hook call used in addition to time.
type Cost struct {
	Fuel     int64
	BytesIn  int64 // copied to the guest
	BytesOut int64 // copied from it
}
