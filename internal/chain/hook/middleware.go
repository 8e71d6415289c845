package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// A Middleware is the code of an entry: native Go, or a WebAssembly module.
// To the chain they are the same. It serves many runs at once.
type Middleware interface {
	// Describe says what the middleware is and which hooks it wants called.
	Describe() Description
	// Open prepares the middleware for one run of the entry of that name.
	Open(ctx context.Context, entry, run string) (Session, error)
}

// A Description is what the chain needs to know of a middleware.
type Description struct {
	abi.Description
	// Digest is that of a module's bytes, in hex; empty for native Go.
	Digest string
}

// A Session is a middleware in one run. Its hooks may be called from several
// goroutines at once.
type Session interface {
	// Call runs one hook. in is a pointer to the hook's input of package abi,
	// out one to its answer, which is filled if the middleware answered. An
	// *abi.Error says that the hook failed, an ending that was caught in
	// c.Next that the run ends, anything else that the middleware faulted.
	Call(ctx context.Context, c *Call, in, out any) error
	// Stats tell what the session has used so far.
	Stats() abi.EntryStats
	// Close frees what the session holds, after its last call.
	Close()
}

// A Ring is a part of the chain: the operator's modules lie around the
// tenant's. A host without a platform has one ring, Tenant.
type Ring int

// The rings, from outside in.
const (
	Outer Ring = iota
	Tenant
	Inner
	RingCount
)

// String returns the ring's name.
func (r Ring) String() string { return [...]string{"outer", "tenant", "inner"}[r] }

// OnFault says what a fault of an entry does to the run.
type OnFault string

// What a fault may do. Faults of gates deny under either, and faults of
// observers and of after_agent never end a run.
const (
	Fail OnFault = "fail" // the run ends; the default
	Skip OnFault = "skip" // as if the entry were not there
)

// Read says which messages an entry may read.
type Read string

// What may be read.
const (
	ReadAll  Read = "all"  // every message; the default
	ReadLast Read = "last" // the last message
	ReadNone Read = "none" // none
)

// An Entry is one middleware in a chain.
type Entry struct {
	Name    string // unique in the chain
	Ring    Ring
	OnFault OnFault // Fail when empty
	Read    Read    // ReadAll when empty
	// Hooks are those of the middleware's hooks that are called; nil: all.
	Hooks      []abi.Hook
	Middleware Middleware
}
