package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// Host is what the chain needs of the agent that runs it. Its methods are
// called from several goroutines at once.
type Host interface {
	// Where says where in the run it is now.
	Where() abi.Run
	// Send sends an event, and returns it as it was sent: with run, step, time
	// and number.
	Send(abi.Event) abi.Event
}

// A Keeper is a Host that keeps what happens in a run, so that another process
// can go on with it.
type Keeper interface {
	// Keep returns once all that was recorded so far is kept, so that it outlasts
	// the process, and where it is to be safe a failure of power as well. Its error
	// ends the run.
	Keep(ctx context.Context, safe bool) error
}

// An Identity gives messages their ids.
type Identity interface {
	// NewID returns an id that no message of the run has had.
	NewID() string
}

// An Accountant is a Host that limits how much memory the run makes it hold.
type Accountant interface {
	// Account returns the account of the run, nil if nothing is counted.
	Account() *account.Account
	// AwaitMemory waits until the host can hold an event of n more bytes, and
	// returns an error if waiting will not help.
	AwaitMemory(ctx context.Context, n int64) error
	// HasMemory is AwaitMemory without waiting.
	HasMemory(n int64) error
}
