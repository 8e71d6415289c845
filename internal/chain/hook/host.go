package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A Host is the agent that runs the chain, as hook calls see it. Its methods are called
// concurrently.
type Host interface {
	// Where returns the current position in the run.
	Where() abi.Run
	// Send sends an event and returns it with run, step, time and number filled in.
	Send(abi.Event) abi.Event
}

// A Keeper is a Host that persists a run, so that another process can resume it.
type Keeper interface {
	// Keep returns once everything recorded so far is persisted. With safe it also
	// survives a power failure. The error ends the run.
	Keep(ctx context.Context, safe bool) error
}

// An Identity is a Host that assigns message ids.
type Identity interface {
	// NewID returns an id that no message of the run has had.
	NewID() string
}

// An Accountant is a Host that limits the memory that a run makes it hold.
type Accountant interface {
	// Account returns the account of the run, or nil if its memory is not counted.
	Account() *account.Account
	// AwaitMemory waits until the host can hold an event of n more bytes. It returns an
	// error if waiting cannot help.
	AwaitMemory(ctx context.Context, n int64) error
	// HasMemory is like AwaitMemory but fails instead of waiting.
	HasMemory(n int64) error
}
