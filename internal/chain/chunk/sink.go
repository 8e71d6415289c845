package chunk

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// A Sink takes chunks on their way outward; nil stands for a call that is not
// streamed. It keeps nothing of the slice. final marks the last of a message. An error
// is an ending, or a *Failed by which the call fails.
type Sink func(ctx context.Context, chunks []abi.Chunk, final bool) error
