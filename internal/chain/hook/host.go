package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A Host is the agent's side of a chain. Its methods are called concurrently.
type Host interface {
	// Where returns the current position in the run.
	Where() abi.Run
	// Send sends an event. It returns the event with its run, step, time and number.
	Send(abi.Event) abi.Event
}

// A Keeper is a Host that persists its run, so that another process can resume the run.
type Keeper interface {
	// Keep waits until everything recorded so far is persisted. If safe is set, the data also
	// survives a power failure. The error ends the run.
	Keep(ctx context.Context, safe bool) error
}

// An Identity is a Host that assigns message ids.
type Identity interface {
	// NewID returns an id that no message of the run has had.
	NewID() string
}

// An Accountant is a Host that limits the memory of its run.
type Accountant interface {
	// Account returns the memory account of the run, or nil if the run's memory is not counted.
	Account() *account.Account
	// AwaitMemory waits until there is memory for an event of n bytes. It returns an error if
	// waiting cannot succeed.
	AwaitMemory(ctx context.Context, n int64) error
	// HasMemory is like AwaitMemory, but returns an error instead of waiting.
	HasMemory(n int64) error
}
