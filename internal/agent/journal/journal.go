// Package journal defines the interface of a store of durable runs, with its changes and its
// errors. It does not depend on the agent's loop. It reads a run's log only to erase from it; see
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
// A stored run consists of a log of changes and of the events that report them. A process claims a
// run before it writes. Each claim raises the run's epoch, and writes with an earlier epoch fail
// with [ErrFenced]. A temporary error has a method Retryable() bool that returns true.
type Journal interface {
	// Create stores a new run and claims it with epoch 1. It fails with [ErrExists] if the run's ID
	// exists, and with the errors of threads if run.Thread is set.
	Create(ctx context.Context, run *Creation) error
	// Load returns a run with its log. It fails with [ErrNoRun] if the run does not exist.
	Load(ctx context.Context, id string) (*StoredRun, error)
	// Claim takes over a run. It fails with [ErrBusy] if the run was claimed since it was loaded,
	// or if the owner's lease has not expired and c.Steal is not set.
	Claim(ctx context.Context, c *Claim) (*StoredRun, error)
	// Commit stores a change and its events atomically. Storing the same commit twice has no
	// further effect.
	Commit(ctx context.Context, c *Commit) error
	// Events returns events of a run that follow event number after, in order. It returns at most
	// about limit events, but at least one if there is any.
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
	// StatusQuarantined marks a run that is suspected of crashing its process. It is not resumed
	// until the operator releases it, and it can be canceled.
	StatusQuarantined Status = "quarantined"
)

// RunInfo is a stored run without its log.
type RunInfo struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	Agent  string `json:"agent"`
	Parent string `json:"parent,omitempty"`
	Title  string `json:"title,omitempty"`  // the last user message of the input, shortened
	Thread string `json:"thread,omitempty"` // the thread that the run continues
	EndUser

	Progress
	Epoch        int64     `json:"epoch"`
	Owner        string    `json:"owner,omitempty"`  // the process that executes the run
	LeaseExpires time.Time `json:"lease,omitzero"`   // until then, another process can claim the run only with Claim.Steal
	Cancel       bool      `json:"cancel,omitempty"` // cancellation was requested
	Created      time.Time `json:"created"`
	Updated      time.Time `json:"updated"`

	Entries int64 `json:"entries"` // number of entries in its log
	// JournalBytes is the number of bytes written to the journal, as [Commit.Bytes] counts.
	JournalBytes int64           `json:"journal_bytes"`
	LastSeq      int64           `json:"last_seq"` // number of the last event
	Modules      []Pin           `json:"modules,omitempty"`
	Spec         json.RawMessage `json:"spec,omitempty"` // see [Options]

	// Version is the version of the agent in Spec; 0 if Spec has none.
	Version  int64           `json:"version,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // JSON object; see [Creation]
	// Faults and Denials are the numbers of faults of modules, and of tool calls that gates or
	// approvers denied. Denied has the denials by the digest of the gate's module.
	Faults  int64            `json:"faults,omitempty"`
	Denials int64            `json:"denials,omitempty"`
	Denied  map[string]int64 `json:"denied,omitempty"`
	// Active is the time for which the run was in progress. It does not include pauses.
	Active time.Duration `json:"active_ns,omitempty"`
	// CostNano is the cost of the model tokens of a tenant's run, in billionths of the currency.
	CostNano int64 `json:"cost_nano,omitempty"`
}

// MaxModels is the maximum number of models in [Progress.Models], and MaxModelName the maximum
// length of their names in bytes. The tokens of all other models are counted for OtherModels.
const (
	MaxModels    = 32
	MaxModelName = 200
	OtherModels  = "(other)"
)

// Progress is the status and the usage of a run.
type Progress struct {
	Status       Status        `json:"status"`
	FinishReason string        `json:"finish_reason,omitempty"`
	Step         int           `json:"step"`
	Usage        abi.Usage     `json:"usage"`
	Fuel         int64         `json:"fuel"` // used by its modules; the sum of Stats
	Pending      []abi.Pending `json:"pending,omitempty"`
	// Stats has the statistics of each entry of the chain so far.
	Stats []abi.EntryStats `json:"stats,omitempty"`
	// Models has the tokens by model; see [MaxModels].
	Models map[string]abi.Usage `json:"models,omitempty"`
	// HeldBytes is the memory that the process uses for the run, and PeakBytes its largest value so
	// far. A store may omit both.
	HeldBytes int64 `json:"held_bytes,omitempty"`
	PeakBytes int64 `json:"peak_bytes,omitempty"`
}

// A Pin is a module with which a run started. The run is resumed only with the same modules.
type Pin struct {
	Entry  string `json:"entry"`
	Ring   string `json:"ring"`
	Digest string `json:"digest,omitempty"` // SHA-256 of the module's bytes; empty for native Go
	When   string `json:"when,omitempty"`   // the entry's conditions as JSON; empty if it has none
}

// An EndUser is the end user of a tenant for whom a run is. Its zero value is that of the tenant's own runs.
type EndUser struct {
	Subject string `json:"subject,omitempty"` // the tenant's name for the end user
	// Token is the id of the token that started the run, or resumed it last. Its quotas count the run's model
	// tokens.
	Token string `json:"token,omitempty"`
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
	// Thread is the run's position in a thread; nil if the run continues none.
	Thread *ThreadStart
	// EndUser is the run's end user. A run in an end user's thread has the subject of that end user.
	EndUser
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
	// Steal allows the claim although the owner's lease has not expired. The caller must know that
	// the owner has ended.
	Steal bool
}

// A Commit is one change of a run.
type Commit struct {
	Run   string
	Epoch int64

	// Log is the next entry of the run's log, and Entry its number. If Log is nil, Entry is the
	// number of the last entry.
	Log   []byte
	Entry int64
	// Events has the events First to Last, one line of JSON each. If there are none, Last is the
	// number of the last stored event, and First is Last+1.
	Events      []byte
	First, Last int64

	Progress *Progress // the run's progress; nil if unchanged
	// Audit is a record for the audit log of the run's tenant; nil for none.
	Audit *Audit
	// Rewrite erases text from earlier entries of the log; optional.
	Rewrite *Rewrite
	// Thread changes the thread of a run that ends; nil if the thread does not change.
	Thread   *ThreadEnd
	LeaseTTL time.Duration
	// Lazy means that the commit must survive the end of the process, but not a power failure. It
	// must survive a power failure together with the run's next commit that is not lazy.
	Lazy bool
	// Full is set by the journal if a quota of the run's tenant is used up, before Written is
	// called or Commit returns. The commit succeeds, and the run then ends.
	Full *FullError
	// Urgent means that the run is ending. Its commits precede those of other runs.
	Urgent bool
	// Abort may be closed during Commit. Commit may then return [ErrAborted] if it has much to
	// write and has persisted nothing. Optional.
	Abort <-chan struct{}
	// Written, if not nil, may be called once before Commit returns. It reports that the commit
	// survives the end of the process and only waits for the sync. The run's next change may be
	// committed after that, and an error of Commit is then final. Written must not block.
	Written func()
}
