package chunk

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// A Sink takes chunks on their way outward. It must not keep the slice. final marks the
// last chunks of a message. The error is an ending, or an *ending.HookError by which the
// call fails. A nil Sink stands for a call that is not streamed.
type Sink func(ctx context.Context, chunks []abi.Chunk, final bool) error
