package hook

import (
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A Run is what the hook calls of one run share.
type Run struct {
	Options
	Host   Host
	Locals *local.Values
	Record *record.Record
	Lists  Lists
	Events func(abi.Event) // gets each event that was sent; must not block

	StreamIDs *atomic.Int64 // how many streams there were
	keeping   *sync.RWMutex // read-locked while something is recorded, locked while that is collected
	owed      *owed

	accountant Accountant       // nil: memory is not limited
	Account    *account.Account // its account; nil if nothing is counted
	recorded   *account.Share   // by the record

	// Of a run as a call of a middleware's own passes it; see [Call.Tool].
	Nested  nester
	path    []frame // the calls that it is made within, itself last
	Scope   string  // sets its hooks apart in the record
	Settled bool    // nothing in it may pause the run
	last    bool    // it is within after_agent: nothing in it ends the run, which has ended
}

// NewRun returns a run. The caller sets its Lists, Events and Nested.
func NewRun(o Options, host Host, locals *local.Values) *Run {
	r := &Run{Options: o, Host: host, Locals: locals, Record: record.New(),
		StreamIDs: &atomic.Int64{}, keeping: &sync.RWMutex{}, owed: &owed{}}
	if r.accountant, _ = host.(Accountant); r.accountant != nil {
		r.Account = r.accountant.Account()
		r.recorded = account.NewShare(r.Account)
	}
	return r
}

// Begin starts a pass through a phase of the run, with the record of earlier passes.
func (r *Run) Begin(rec *record.Record) {
	rec.BeginPass()
	r.keeping.Lock()
	defer r.keeping.Unlock()
	r.Record = rec
	rec.SetShare(r.recorded)
}

// Release returns the memory that is counted for the record.
func (r *Run) Release() {
	if r.recorded != nil {
		_ = r.recorded.Set(0)
	}
}
