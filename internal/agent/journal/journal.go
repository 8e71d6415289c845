// Package journal defines the interface of a store of durable runs, its changes and its errors. It
// does not depend on the agent's loop, and reads a run's log only to erase from it; see
// [Rewrite].
package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Journal stores runs so that they survive the process that executes them. Its methods
// are safe for concurrent use.
//
// A stored run consists of a log of changes and of the events that report them. A process
// claims a run before it writes. Each claim raises the run's epoch, and writes with an
// earlier epoch fail with [ErrFenced]. An error that may be temporary has a method
// Retryable() bool that returns true.
type Journal interface {
	// Create stores a new run and claims it with epoch 1. It fails with [ErrExists] if
	// the id is taken.
	Create(ctx context.Context, run *Creation) error
	// Load returns a run with its log. It fails with [ErrNoRun] if the run does not exist.
	Load(ctx context.Context, id string) (*StoredRun, error)
	// Claim takes over a run. It fails with [ErrBusy] if the run was claimed since it was loaded,
	// or if the lease of its owner has not expired and c.Steal is not set.
	Claim(ctx context.Context, c *Claim) (*StoredRun, error)
	// Commit stores a change and its events atomically. It is idempotent.
	Commit(ctx context.Context, c *Commit) error
	// Events returns the events of a run that follow event number after. It returns at least one
	// event if there is any, and at most about limit.
	Events(ctx context.Context, id string, after int64, limit int) ([]abi.Event, error)
	// Renew extends the lease of a run. A lease of 0 lets another process claim the run at once.
	// Renew reports whether cancellation of the run was requested. It fails with [ErrFenced] if
	// another process has claimed the run.
	Renew(ctx context.Context, id string, epoch int64, lease time.Duration) (cancel bool, err error)
}

// A Status is the state of a run in a journal.
type Status string

// Statuses of a run.
const (
	StatusRunning  Status = "running"  // in progress, or interrupted by the end of its process
	StatusPaused   Status = "paused"   // waiting for answers
	StatusFinished Status = "finished" // ended
	StatusQueued   Status = "queued"   // waiting for the earlier runs of its thread
	// StatusQuarantined marks a run that is suspected to have crashed its process. It is
	// not resumed. It can be canceled, or released by the operator.
	StatusQuarantined Status = "quarantined"
)

// RunInfo describes a run without its log.
type RunInfo struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	Agent  string `json:"agent"`
	Parent string `json:"parent,omitempty"`
	Title  string `json:"title,omitempty"`  // the last user message of the input, shortened
	Thread string `json:"thread,omitempty"` // the thread that the run continues

	Progress
	Epoch        int64     `json:"epoch"`
	Owner        string    `json:"owner,omitempty"`  // the process that executes it
	LeaseExpires time.Time `json:"lease,omitzero"`   // until then, a claim by another process must set Claim.Steal
	Cancel       bool      `json:"cancel,omitempty"` // cancellation was requested
	Created      time.Time `json:"created"`
	Updated      time.Time `json:"updated"`

	Entries int64 `json:"entries"` // number of entries in its log
	// JournalBytes is the number of bytes written to the journal, as [Commit.Bytes] counts.
	JournalBytes int64           `json:"journal_bytes"`
	LastSeq      int64           `json:"last_seq"` // number of the last event
	Modules      []Pin           `json:"modules,omitempty"`
	Spec         json.RawMessage `json:"spec,omitempty"` // see [Options]

	// Version is the version of the agent according to Spec; 0 if it has none.
	Version  int64           `json:"version,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // JSON object; see [Creation]
	// Faults and Denials count the run's events: faults of modules, and tool calls that gates or
	// approvers denied. Denied has the denials by the digest of the gate's module.
	Faults  int64            `json:"faults,omitempty"`
	Denials int64            `json:"denials,omitempty"`
	Denied  map[string]int64 `json:"denied,omitempty"`
	// Active is the time in which the run was in progress, without its pauses.
	Active time.Duration `json:"active,omitempty"`
	// CostNano is the cost of the models' tokens, in billionths of the currency, for runs of tenants.
	CostNano int64 `json:"cost_nano,omitempty"`
}

// MaxModels is the maximum number of models in [Progress.Models], of which each name has at most
// MaxModelName bytes. The tokens of other models are counted for OtherModels.
const (
	MaxModels    = 32
	MaxModelName = 200
	OtherModels  = "(other)"
)

// Progress describes how far a run has come.
type Progress struct {
	Status       Status        `json:"status"`
	FinishReason string        `json:"finish_reason,omitempty"`
	Step         int           `json:"step"`
	Usage        abi.Usage     `json:"usage"`
	Fuel         int64         `json:"fuel"` // used by its modules; the sum of Stats
	Pending      []abi.Pending `json:"pending,omitempty"`
	// Stats holds the usage of each entry of the chain so far.
	Stats []abi.EntryStats `json:"stats,omitempty"`
	// Models holds the tokens by model; see [MaxModels].
	Models map[string]abi.Usage `json:"models,omitempty"`
	// HeldBytes is the memory that the run makes its process hold. PeakBytes is the
	// largest value of HeldBytes so far. A store may omit both.
	HeldBytes int64 `json:"held_bytes,omitempty"`
	PeakBytes int64 `json:"peak_bytes,omitempty"`
}

// A Pin is a module that a run started with. The run is resumed only with the same modules.
type Pin struct {
	Entry  string `json:"entry"`
	Ring   string `json:"ring"`
	Digest string `json:"digest,omitempty"` // SHA-256 of the module's bytes; empty for native Go
	When   string `json:"when,omitempty"`   // the entry's conditions as JSON; empty if it has none
}

// A Creation is a new run. Its log has one entry.
type Creation struct {
	ID, Tenant, Agent, Parent, Title string

	Owner    string
	LeaseTTL time.Duration
	Modules  []Pin
	Spec     json.RawMessage
	Log      []byte
	Lazy     bool // see [Commit.Lazy]
	// Metadata is the caller's metadata, a JSON object; optional.
	Metadata json.RawMessage
	// Thread is the run's place in a thread; nil if the run continues none.
	Thread *ThreadStart
}

// A StoredRun is a run with its log.
type StoredRun struct {
	RunInfo
	Log [][]byte // entries in order
}

// A Claim is a request to take over a run.
type Claim struct {
	Run      string
	Epoch    int64 // the run's epoch when it was loaded
	Owner    string
	LeaseTTL time.Duration
	// Steal claims the run before the lease of its owner expires. The owner must be
	// known to have ended.
	Steal bool
}

// A Commit is one change of a run.
type Commit struct {
	Run   string
	Epoch int64

	// Log is the next entry of the run's log and Entry its number. If Log is nil, Entry
	// is the number of the last entry.
	Log   []byte
	Entry int64
	// Events holds the events First to Last, a line of JSON each. Without events, Last is
	// the number of the last stored event and First is Last+1.
	Events      []byte
	First, Last int64

	Progress *Progress // the run's progress; nil if unchanged
	// Rewrite erases from earlier entries of the log; optional.
	Rewrite *Rewrite
	// Thread changes the thread of a run that ends; nil if the thread stays as it is.
	Thread   *ThreadEnd
	LeaseTTL time.Duration
	// Lazy means that the commit must survive the end of the process. It needs to survive
	// a power failure only together with the run's next commit that is not lazy.
	Lazy bool
	// Full is set by the journal if a quota of the run's tenant is used up. It is set
	// before Written is called or Commit returns. The commit succeeds; the run then ends.
	Full *FullError
	// Urgent means that the run is ending. Its commits precede those of other runs.
	Urgent bool
	// Abort, once closed, allows Commit to return [ErrAborted] if it has much to write and
	// has persisted nothing yet; optional.
	Abort <-chan struct{}
	// Written, if not nil, may be called once before Commit returns. It reports that the
	// commit survives the end of the process and is only waiting for the sync. From then
	// on the run's next change may be committed, and an error is final. Written must not
	// block.
	Written func()
}
