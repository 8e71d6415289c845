package tracing

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Tracer is told of what runs do, while they do it: for spans, timelines and
// metrics. Its methods are called by many goroutines at once, and what they cost is
// added to what they are told of.
type Tracer interface {
	// Start is called before an operation. That goes on under the context which
	// Start returns, and so do the operations within it; the function is called
	// once, when it is over.
	Start(ctx context.Context, op Operation) (context.Context, func(Outcome))
}

// An OperationKind says what an operation is.
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

// An Outcome is what came of an operation.
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

// Spent is what a hook call cost beside time.
type Cost struct {
	Fuel     int64
	BytesIn  int64 // copied to the guest
	BytesOut int64 // copied from it
}
