package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// A Middleware is the code of an entry: Go code in this process, or a WebAssembly module.
// It serves many runs concurrently.
type Middleware interface {
	// Describe returns the middleware's description, including its hooks.
	Describe() Description
	// Open prepares the middleware for the named entry in the run with ID run.
	Open(ctx context.Context, entry, run string) (Session, error)
}

// A Description describes a middleware to the chain.
type Description struct {
	abi.Description
	// Digest is the SHA-256 of a module's bytes in hex; empty for Go middlewares.
	Digest string
	// SetLabels allows the entry to remove labels of messages, unless it is in the tenant's ring.
	SetLabels bool
}

// A Session is a middleware in one run. Its hooks may be called concurrently.
type Session interface {
	// Call runs one hook. in points to the hook's input of package abi, and out to its answer,
	// which Call fills if the middleware answered. An *abi.Error means that the hook failed. An
	// error that [ending.Is] accepts means that the run has ended or paused, for example during a
	// call to the host that the hook made. Any other error is a fault of the middleware.
	Call(ctx context.Context, c *Call, in, out any) error
	// Stats returns the session's statistics so far.
	Stats() abi.EntryStats
	// Close releases the session's resources after its last call.
	Close()
}

// OnFault determines how a fault of an entry affects the run.
type OnFault string

// The effects of a fault. They apply only to hooks whose faults can end the run. For example, a fault of a gate
// always denies the call, and a fault of observe or after_agent never ends a run.
const (
	Fail OnFault = "fail" // ends the run; the default
	Skip OnFault = "skip" // continues as if the entry did not have the hook
)

// Read restricts which messages an entry may read.
type Read string

// The values of Read.
const (
	ReadAll  Read = "all"  // every message; the default
	ReadLast Read = "last" // only the last message
	ReadNone Read = "none" // no messages
)

// An Entry is a middleware in a chain, with its settings.
type Entry struct {
	Name    string // unique in the chain
	Ring    Ring
	OnFault OnFault // the default is Fail
	Read    Read    // the default is ReadAll
	// Hooks selects the middleware's hooks to call. Nil selects all of them.
	Hooks      []abi.Hook
	When       When // the runs and calls in which the entry is called
	Middleware Middleware
}
