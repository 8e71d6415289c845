package hook

import (
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A Run is the state that the hook calls of one run share.
type Run struct {
	Options
	Host   Host
	Locals *local.Values
	Record *record.Record
	Lists  Lists
	Events func(abi.Event) // receives each event that was sent; must not block

	StreamIDs   *atomic.Int64 // number of streams so far
	keeping     *sync.RWMutex // read-locked while recording, locked while collecting the recorded changes
	unpersisted *unpersisted

	accountant Accountant       // waits for the run's memory; nil if memory is not limited
	Account    *account.Account // the account of accountant; nil if memory is not counted
	recorded   *account.Share   // the record's share of the account

	// The fields below concern calls that middlewares make for themselves; see [Call.Tool].
	Nested  nester
	path    []frame // the middlewares' calls in progress, innermost last
	Scope   string  // distinguishes the hooks within the call in the record; see [Run.Within]
	Settled bool    // nothing within the call may pause the run
	last    bool    // the call is within after_agent, when the run has ended and nothing can end it
}

// NewRun returns the state of a run. The caller sets Lists, Events and Nested.
func NewRun(o Options, host Host, locals *local.Values) *Run {
	r := &Run{Options: o, Host: host, Locals: locals, Record: record.New(),
		StreamIDs: &atomic.Int64{}, keeping: &sync.RWMutex{}, unpersisted: &unpersisted{}}
	if r.accountant, _ = host.(Accountant); r.accountant != nil {
		r.Account = r.accountant.Account()
		r.recorded = account.NewShare(r.Account)
	}
	return r
}

// Begin starts a pass through a phase of the run. rec has the outcomes of earlier passes.
func (r *Run) Begin(rec *record.Record) {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	rec.BeginPass(r.Record, r.recorded)
	r.Record = rec
}

// Release returns the memory that is counted for the record.
func (r *Run) Release() {
	if r.recorded != nil {
		_ = r.recorded.Set(0)
	}
}
