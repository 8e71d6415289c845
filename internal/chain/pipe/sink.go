package pipe

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// A Sink receives chunks on their way outward. It must not keep the slice. final marks the last
// chunks of a message. The error is an *ending.HookError that fails the call, or ends or pauses the
// run. A nil Sink means that the call is not streamed.
type Sink func(ctx context.Context, chunks []abi.Chunk, final bool) error
