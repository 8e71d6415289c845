package journal

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// JournalOptions say where an agent's runs are kept. They are copied.
type Options struct {
	Journal Journal
	Tenant  string
	// Owner names who runs the runs: a process of a machine.
	Owner string
	// Gone reports whether an owner is known to run nothing any more; nil: nobody
	// knows, and a claim waits for the end of the owner's lease.
	Gone func(owner string) bool
	// Lease is how long nobody else may claim a run after a sign of life;
	// DefaultLease when 0.
	LeaseTTL time.Duration
	// Patience is how long a run waits for a journal that is not reached;
	// DefaultPatience when 0.
	RetryTimeout time.Duration
	// HandBack, once it is closed, lets runs end here where a phase of theirs does,
	// with a [*JournalError] of [ErrHandedBack]: the process is about to end. They
	// can be gone on with at once, by any other. Nil: they run to their end.
	Drain <-chan struct{}
	// Leave, once it is closed, ends runs here at once, with the same error and in the
	// middle of what they do: nothing of that is kept any more, as if the process had
	// ended. Once they have ended they can be gone on with at once. Nil: never.
	Abort <-chan struct{}
	// Originals keeps the messages that a run began with as the caller gave them. By
	// default the journal has them only until modules change them in before_agent, or in
	// before_model_rewrite_state before the first model call; from that commit on it has what the modules left.
	Originals bool
	// Spec is kept with each run: from it the agent can be made again. JSON.
	Spec json.RawMessage
	// MaxBytes caps what a run and the sub-agents in it write to the journal. A run
	// that exceeds it ends with a [*JournalFullError]. Defaults to
	// DefaultMaxJournalBytes; an agent's Limits.JournalBytes may lower it.
	MaxBytes int64
	// Dropped counts the events of stopped runs that were not persisted; optional.
	Dropped *atomic.Int64
}

// Defaults of JournalOptions.
const (
	DefaultLeaseTTL     = 15 * time.Second
	DefaultRetryTimeout = time.Minute
)

func (o *Options) WithDefaults() *Options {
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
