package journal

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// Options configure where and how an agent's runs are stored. An agent copies them.
type Options struct {
	Journal Journal
	Tenant  string
	// Owner identifies this process among those that share the journal.
	Owner string
	// Gone reports whether an owner is known to have ended. Its runs can then be claimed
	// before their leases expire. Optional.
	Gone func(owner string) bool
	// LeaseTTL is the time after a heartbeat at which the lease on a run expires; the default is
	// DefaultLeaseTTL. Until then, no other process may claim the run unless Gone reports that its
	// owner has ended.
	LeaseTTL time.Duration
	// RetryTimeout bounds how long a run waits for a journal that is unavailable; the default is
	// DefaultRetryTimeout.
	RetryTimeout time.Duration
	// Drain, once closed, ends each run in this process at the end of its current phase,
	// with an [*Error] that wraps [ErrReleased]. Another process can resume it at once.
	// Optional.
	Drain <-chan struct{}
	// Abort, once closed, ends runs at once with the same error. Nothing more is stored,
	// as if the process had crashed. Another process can resume them at once. Optional.
	Abort <-chan struct{}
	// Originals keeps the messages of a run and the recorded answers of its model, tools and hooks
	// unchanged. By default they are erased where modules changed or removed something, at the
	// latest when the next model call starts or the run ends.
	Originals bool
	// Spec is JSON that is stored with each run and from which the agent can be rebuilt.
	Spec json.RawMessage
	// MaxBytes is the maximum number of bytes that a run and the sub-agents in it write to the
	// journal; the default is DefaultMaxBytes. A run that exceeds it ends with a [*FullError]. An
	// agent's Limits.JournalBytes may lower it.
	MaxBytes int64
	// Dropped counts the events of stopped runs that were not persisted; optional.
	Dropped *atomic.Int64
}

// Defaults of Options.
const (
	DefaultLeaseTTL     = 15 * time.Second
	DefaultRetryTimeout = time.Minute
)

// WithDefaults returns a copy of o with defaults filled in, or nil if o is nil or names no journal.
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
