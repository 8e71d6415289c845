package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Journal keeps runs, so that they outlast the process that runs them. Its
// methods may be called by many runs at once.
//
// A run in the journal is a log of changes and the events that they led to. Who
// writes to it has claimed it, and each claim raises the run's epoch: the writes
// of an earlier one fail with [ErrFenced]. An error that is worth another try
// has a method Retryable() bool that says so.
type Journal interface {
	// Create keeps a new run, which is claimed with epoch 1. It fails with
	// [ErrExists] if there is a run of that id.
	Create(ctx context.Context, run *NewRun) error
	// Load returns a run with its log, or fails with [ErrNoRun].
	Load(ctx context.Context, id string) (*KeptRun, error)
	// Claim takes a run over. It fails with [ErrBusy] if the run was claimed
	// since it was loaded, or is run by somebody who may still be there.
	Claim(ctx context.Context, c *Claim) (*KeptRun, error)
	// Commit keeps a change and its events: all of it or nothing. Committing the
	// same once more changes nothing.
	Commit(ctx context.Context, c *Commit) error
	// Events returns events of a run from behind number after on, at least one if
	// there is one, and not many more than limit. Each is a line of JSON.
	Events(ctx context.Context, id string, after int64, limit int) ([]abi.Event, error)
	// Renew says that the run is still run here, and tells whether somebody wants
	// it canceled.
	Renew(ctx context.Context, id string, epoch int64, lease time.Duration) (cancel bool, err error)
}

// Errors of a [Journal]. Implementations wrap them.
var (
	// ErrFenced is the error of a write by somebody whose claim is not the last.
	ErrFenced = errors.New("the run was taken over by another process")
	// ErrBusy is the error of a claim while somebody else has one.
	ErrBusy = errors.New("the run is being run by another process")
	// ErrNoRun is the error where there is no such run.
	ErrNoRun = errors.New("there is no such run")
	// ErrExists is the error of creating a run that is there already.
	ErrExists = errors.New("there is a run of this id already")
	// ErrHandedBack is why a run ends here whose process is about to end.
	ErrHandedBack = errors.New("its process is about to end, and another one may go on with it")
	// ErrFinished is the error of resuming a run that has come to its end.
	ErrFinished = errors.New("the run has come to its end")
)

// A Status says what may become of a run.
type Status string

// The statuses of a run in a journal.
const (
	StatusRunning  Status = "running"  // somebody runs it, or did until its process ended
	StatusPaused   Status = "paused"   // it waits for answers
	StatusFinished Status = "finished" // it has come to its end
	// StatusQuarantined is a run that is kept from running, since it seems to have ended
	// the process that ran it. It can be canceled, and released by the operator.
	StatusQuarantined Status = "quarantined"
)

// RunInfo is what a journal tells of a run without reading its log.
type RunInfo struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	Agent  string `json:"agent"`
	Parent string `json:"parent,omitempty"`
	Title  string `json:"title,omitempty"` // what the user said last when it began, cut

	Progress
	Epoch   int64     `json:"epoch"`
	Owner   string    `json:"owner,omitempty"`  // who runs it
	Lease   time.Time `json:"lease,omitzero"`   // until when nobody else may claim it
	Cancel  bool      `json:"cancel,omitempty"` // somebody wants it canceled
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`

	Entries int64 `json:"entries"` // of its log
	// JournalBytes is how much the run wrote to the journal, as [Commit.Bytes] counts.
	JournalBytes int64           `json:"journal_bytes"`
	LastSeq      int64           `json:"last_seq"` // of its events
	Modules      []Pin           `json:"modules,omitempty"`
	Spec         json.RawMessage `json:"spec,omitempty"` // see [JournalOptions]
}

// Progress is how far a run has come.
type Progress struct {
	Status       Status        `json:"status"`
	FinishReason string        `json:"finish_reason,omitempty"`
	Step         int           `json:"step"`
	Usage        abi.Usage     `json:"usage"`
	Fuel         int64         `json:"fuel"` // that its modules used, by Stats
	Pending      []abi.Pending `json:"pending,omitempty"`
	// Stats are what each entry of its chain used, up to the end of its last phase.
	Stats []abi.EntryStats `json:"stats,omitempty"`
	// HeldBytes is how much memory the run makes its process hold, and PeakBytes the
	// most that it did there; see Options.Memory. A store may leave them out.
	HeldBytes int64 `json:"held_bytes,omitempty"`
	PeakBytes int64 `json:"peak_bytes,omitempty"`
}

// A Pin is a module that a run began with, and goes on with.
type Pin struct {
	Entry  string `json:"entry"`
	Ring   string `json:"ring"`
	Digest string `json:"digest,omitempty"` // of the module's bytes; empty for native Go
}

// A NewRun is a run that begins. Its log has one entry.
type NewRun struct {
	ID, Tenant, Agent, Parent, Title string

	Owner   string
	Lease   time.Duration
	Modules []Pin
	Spec    json.RawMessage
	Log     []byte
	Lazy    bool // as [Commit] has it
}

// A KeptRun is a run as a journal has it.
type KeptRun struct {
	RunInfo
	Log [][]byte // the entries of its log, in their order
}

// A Claim takes a run over.
type Claim struct {
	Run   string
	Epoch int64 // that the run had when it was loaded
	Owner string
	Lease time.Duration
	// Steal claims the run although the lease of its owner goes on: the owner is
	// known to be gone.
	Steal bool
}

// A Commit is one change of a run.
type Commit struct {
	Run   string
	Epoch int64

	// Log is an entry of the run's log, and Entry its number; without one Entry is
	// that of the last.
	Log   []byte
	Entry int64
	// Events are a line of JSON each, from number First to number Last; without
	// any both are that of the last one there is, and First one more than it.
	Events      []byte
	First, Last int64

	Progress *Progress // nil: as it was
	// Rewrite, unless it is nil, replaces messages in the run's earlier entries.
	Rewrite *Rewrite
	Lease   time.Duration
	// Lazy says that the change has to outlast the process, and a failure of power
	// only together with the next one of the run that is not lazy.
	Lazy bool
	// Full is set by the journal, before Written is called or Commit returns, if a
	// quota of the run's tenant is used up. The commit is made; the run then ends.
	Full *JournalFullError
	// Urgent says that the run is to end: the commit goes before those of other runs.
	Urgent bool
	// Abort, once it is closed, lets Commit return [ErrAborted] if it has persisted nothing
	// yet, and has much to write. Nil: it doesn't.
	Abort <-chan struct{}
	// Written, unless it is nil, may be called once, before Commit returns: the
	// change outlasts the process, and what is waited for is only that it outlasts a
	// failure of power. The run's next change may be committed from then on; an error
	// after that is final. It must not block.
	Written func()
}

// JournalOptions say where an agent's runs are kept. They are copied.
type JournalOptions struct {
	Journal Journal
	Tenant  string
	// Owner names who runs the runs: a process of a machine.
	Owner string
	// Gone reports whether an owner is known to run nothing any more; nil: nobody
	// knows, and a claim waits for the end of the owner's lease.
	Gone func(owner string) bool
	// Lease is how long nobody else may claim a run after a sign of life;
	// DefaultLease when 0.
	Lease time.Duration
	// Patience is how long a run waits for a journal that is not reached;
	// DefaultPatience when 0.
	Patience time.Duration
	// HandBack, once it is closed, lets runs end here where a phase of theirs does,
	// with a [*JournalError] of [ErrHandedBack]: the process is about to end. They
	// can be gone on with at once, by any other. Nil: they run to their end.
	HandBack <-chan struct{}
	// Leave, once it is closed, ends runs here at once, with the same error and in the
	// middle of what they do: nothing of that is kept any more, as if the process had
	// ended. Once they have ended they can be gone on with at once. Nil: never.
	Leave <-chan struct{}
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
	DefaultLease    = 15 * time.Second
	DefaultPatience = time.Minute
)

func (o *JournalOptions) complete() *JournalOptions {
	if o == nil || o.Journal == nil {
		return nil
	}
	out := *o
	if out.Lease <= 0 {
		out.Lease = DefaultLease
	}
	if out.Patience <= 0 {
		out.Patience = DefaultPatience
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = DefaultMaxJournalBytes
	}
	return &out
}

// A JournalError ends a run here, because the journal does: what was told of it
// is kept, and it can be resumed. It comes with an event that has no type.
type JournalError struct {
	Run string
	Err error
}

// Error says what became of the run.
func (e *JournalError) Error() string {
	return fmt.Sprintf("run %s goes no further here: %v", e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *JournalError) Unwrap() error { return e.Err }

// A WaitingError says that a run cannot go on without answers.
type WaitingError struct {
	Run     string
	Pending []abi.Pending
}

// Error names the interrupts.
func (e *WaitingError) Error() string {
	ids := make([]string, len(e.Pending))
	for i, p := range e.Pending {
		ids[i] = p.ID
	}
	return fmt.Sprintf("run %s waits for answers to %s", e.Run, strings.Join(ids, ", "))
}

// A PinError says that the agent's modules are not those the run began with.
type PinError struct {
	Run  string
	What string
}

// Error says what is different, and what to do.
func (e *PinError) Error() string {
	return fmt.Sprintf("run %s goes on with the modules that it began with: %s; resume it with an agent that has the same modules", e.Run, e.What)
}

// Pins are the agent's modules, and those of the agents that it may run or hand
// over to, under their names.
func (a *Agent) Pins() []Pin {
	var out []Pin
	for _, b := range a.all() {
		prefix := ""
		if b != a {
			prefix = b.Name + "/"
		}
		for _, e := range b.Chain.Entries() {
			out = append(out, Pin{Entry: prefix + e.Name, Ring: e.Ring.String(), Digest: e.Middleware.Describe().Digest})
		}
	}
	return out
}

// checkPins compares the agent's modules with those of a run.
func (a *Agent) checkPins(run string, want []Pin) error {
	have := a.Pins()
	for i := range max(len(have), len(want)) {
		switch {
		case i >= len(have):
			return &PinError{run, fmt.Sprintf("%s is missing", want[i].Entry)}
		case i >= len(want):
			return &PinError{run, fmt.Sprintf("%s was not among them", have[i].Entry)}
		case have[i].Entry != want[i].Entry || have[i].Ring != want[i].Ring:
			return &PinError{run, fmt.Sprintf("entry %d was %s in ring %s, and is %s in ring %s", i+1, want[i].Entry, want[i].Ring, have[i].Entry, have[i].Ring)}
		case have[i].Digest != want[i].Digest:
			return &PinError{run, fmt.Sprintf("%s was sha256:%s, and is sha256:%s", want[i].Entry, want[i].Digest, have[i].Digest)}
		}
	}
	return nil
}
