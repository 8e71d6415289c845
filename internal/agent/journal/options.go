package journal

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// Options configure where and how an agent's runs are stored. [WithDefaults] copies them.
type Options struct {
	Journal Journal
	Tenant  string
	// Owner identifies this process among the processes that share the journal.
	Owner string
	// Gone reports whether an owner is known to have ended. This process can then claim the owner's
	// runs before their leases expire. Optional.
	Gone func(owner string) bool
	// LeaseTTL is the duration of a run's lease, which each heartbeat renews. The default is
	// DefaultLeaseTTL. Until the lease expires, other processes cannot claim the run, unless Gone
	// reports that the owner has ended.
	LeaseTTL time.Duration
	// RetryTimeout is the maximum time for which a run waits for an unavailable journal. The
	// default is DefaultRetryTimeout.
	RetryTimeout time.Duration
	// Drain, when closed, ends each run in this process after its current phase, with an [*Error]
	// that wraps [ErrReleased]. Another process can resume the run at once. Optional.
	Drain <-chan struct{}
	// Abort, when closed, ends runs at once with the same error. They store nothing more, as if the
	// process had crashed. Another process can resume them at once. Optional.
	Abort <-chan struct{}
	// Originals keeps the messages of a run, and the recorded answers of its model, tools and
	// hooks, unchanged in the journal. By default, text that modules changed or removed is erased,
	// at the latest when the next model call starts or the run ends.
	Originals bool
	// Spec is JSON that is stored with each run and from which the agent can be rebuilt.
	Spec json.RawMessage
	// MaxBytes is the maximum number of bytes that a run and its sub-agents write to the journal.
	// The default is DefaultMaxBytes. A run that exceeds the maximum ends with a [*FullError]. An
	// agent's Limits.JournalBytes can lower it.
	MaxBytes int64
	// Dropped counts the events of stopped runs that were not persisted; optional.
	Dropped *atomic.Int64
}

// Defaults of Options.
const (
	DefaultLeaseTTL     = 15 * time.Second
	DefaultRetryTimeout = time.Minute
)

// WithDefaults returns a copy of o with defaults set, or nil if o is nil or has no journal.
func WithDefaults(o *Options) *Options {
	if o == nil || o.Journal == nil {
		return nil
	}
	out := *o
	if out.LeaseTTL <= 0 {
		out.LeaseTTL = DefaultLeaseTTL
	}
	if out.RetryTimeout <= 0 {
		out.RetryTimeout = DefaultRetryTimeout
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = DefaultMaxBytes
	}
	return &out
}
