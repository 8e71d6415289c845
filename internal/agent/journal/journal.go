// Package journal holds the durable record of runs: the interface of a store that keeps
// them, the changes that it takes, and its errors. It knows neither the agent's loop nor
// what a run's log says, except for the messages that [Rewrite] replaces.
package journal

import (
	"context"
	"encoding/json"
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
	Create(ctx context.Context, run *Creation) error
	// Load returns a run with its log, or fails with [ErrNoRun].
	Load(ctx context.Context, id string) (*StoredRun, error)
	// Claim takes a run over. It fails with [ErrBusy] if the run was claimed
	// since it was loaded, or is run by somebody who may still be there.
	Claim(ctx context.Context, c *Claim) (*StoredRun, error)
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
	Epoch        int64     `json:"epoch"`
	Owner        string    `json:"owner,omitempty"`  // who runs it
	LeaseExpires time.Time `json:"lease,omitzero"`   // until when nobody else may claim it
	Cancel       bool      `json:"cancel,omitempty"` // somebody wants it canceled
	Created      time.Time `json:"created"`
	Updated      time.Time `json:"updated"`

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
type Creation struct {
	ID, Tenant, Agent, Parent, Title string

	Owner   string
	Lease   time.Duration
	Modules []Pin
	Spec    json.RawMessage
	Log     []byte
	Lazy    bool // as [Commit] has it
}

// A KeptRun is a run as a journal has it.
type StoredRun struct {
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
	Full *FullError
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
