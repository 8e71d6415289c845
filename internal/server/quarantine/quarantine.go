package quarantine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Service decides which runs of crashed processes are resumed.
//
// A process stores its memory usage at least every second, together with the runs that exceed their
// share and, if more than half of the memory is in use, its largest runs. The process that takes over
// a run reads this evidence. A run that exceeded its share until the end is quarantined. If memory
// was short, the other runs are suspects, which are resumed one at a time. A suspect is quarantined
// if its second process also runs out of memory while the suspect is the largest run.
//
// If memory was not short, the runs of the process are resumed at once, and the crash is recorded for
// each. A run that then ends its second process within [store.MaxLived], or that the crash report of
// its process names, is tried: a process executes it and nothing else. If this process crashes, the run
// is quarantined. If it ends without a crash report, the trial is repeated, and the run is quarantined
// after the second such trial, or the fourth if another server also ended. A run that two crash reports
// name is quarantined, too.
type Service struct {
	options *Options
	of      *account.Account // the account of the process
	node    string
	cgroup  string

	mu    sync.Mutex
	seen  map[string]*excessRate // rates by run
	trial *journal.RunInfo       // the suspect that was resumed here, or nil
	began time.Time              // when the trial began
	limit time.Duration          // of the trial
	alone isolation

	released time.Time // when Watch last looked for void evidence; used by Watch only
}

// Options configure a [Service]. All fields but Owner, Node and those marked optional are required.
type Options struct {
	Store    store.Store
	Overload *overload.Manager
	Logger   *slog.Logger
	// Owner is the server's option of the same name. Without it, there are no heartbeats.
	Owner string
	// Node is the name of this machine. The default is the host name.
	Node string
	// InProgress reports whether a run is in progress here.
	InProgress func(tenant, run string) bool
	// Count returns the number of runs in progress here.
	Count func() int
	// Waiting makes the servers look for runs to resume.
	Waiting func()
	// Gone reports whether an owner is known to have ended. Optional.
	Gone func(owner string) bool
	// Single is set if no other server shares the store.
	Single bool
	// Reports has the crash reports of earlier processes, by owner. The value is the run that the report
	// names, or empty. Optional.
	Reports map[string]string
}

// New returns a service with the options.
func New(o *Options) *Service {
	node := o.Node
	if node == "" {
		node, _ = os.Hostname()
	}
	cgroup, _ := overload.Cgroup()
	return &Service{options: o, of: account.Process(), node: node, cgroup: cgroup, seen: map[string]*excessRate{}}
}

// OnTrial reports whether a suspect is on trial in this process.
func (q *Service) OnTrial() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.trial != nil
}

// Judge reports whether a run of an ended process may be resumed here now. It quarantines the run
// if there is evidence that the run crashed its process. If memory was short and the run is not
// clearly the cause, Judge puts the run on trial, or reports false while another run is on trial
// here.
func (q *Service) Judge(ctx context.Context, info *journal.RunInfo) (resume bool, err error) {
	d, err := q.options.Store.CrashOf(ctx, info.Owner, info.ID)
	if err != nil || d == nil {
		return err == nil && !q.isolated(), err
	}
	// While the process executed nothing but the run, the OOM killer alone is no evidence: the memory of
	// other processes may have been the reason.
	memory := d.Killed && !d.Isolated || d.Pressure >= 1000*overload.RejectAt
	reason := ""
	switch {
	case exceedsShare(&d.Account):
		reason = fmt.Sprintf("its server ended while the run wanted to hold more than its share of %d bytes", d.Account.Share)
	case memory && d.Alone && d.Largest:
		reason = "its server ran out of memory twice; after the first time, this run was the only one that was resumed"
	case memory:
		return q.startTrial(ctx, info)
	default:
		return q.judgeCrash(ctx, info, d)
	}
	q.options.Logger.Warn("run quarantined", "tenant", info.Tenant, "run", info.ID, "reason", reason,
		"held", d.Account.Held, "used", d.Used, "limit", d.Limit)
	return false, q.options.Store.Quarantine(ctx, info, &store.Evidence{
		Node: d.Node, Reason: reason, Held: d.Account.Held, Share: d.Account.Share,
		Used: d.Used, Limit: d.Limit, Memory: memory,
	})
}

// startTrial puts a suspect on trial, and reports whether it may be resumed. It may not if another
// suspect is on trial here.
func (q *Service) startTrial(ctx context.Context, info *journal.RunInfo) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trial != nil && q.trial.ID != info.ID || q.alone.is {
		return false, nil
	}
	if err := q.options.Store.Suspect(ctx, info.ID, q.options.Owner, false); err != nil {
		return false, err
	}
	q.trial, q.began, q.limit = info, time.Now(), TrialTime
	q.options.Logger.Info("run resumed alone: memory was short when its server ended",
		"tenant", info.Tenant, "run", info.ID)
	return true, nil
}

// EndTrial ends the trial, and removes the run from the suspects in the store, if the run has ended
// or has run for the time of its trial. It does nothing while memory is short. If another process has
// claimed the run, it ends the trial here only. After the last trial, it ends the isolation of this
// process.
func (q *Service) EndTrial(ctx context.Context, now time.Time, state overload.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trial == nil {
		q.endIsolation(now)
		return
	}
	took := now.Sub(q.began)
	runs := q.options.InProgress(q.trial.Tenant, q.trial.ID)
	if state.Rejecting || runs && took < q.limit || !runs && took < heartbeatInterval {
		return
	}
	end := q.options.Store.Clear
	if !runs {
		switch info, err := q.options.Store.Run(ctx, q.trial.ID); {
		case errors.Is(err, journal.ErrNoRun): // deleted
		case err != nil:
			q.options.Logger.Error("read suspect run", "run", q.trial.ID, "error", err)
			return
		case info.Status != journal.StatusRunning: // ended or paused
		case took < startTime && (info.Owner == q.options.Owner || info.Epoch == q.trial.Epoch):
			return // this process is about to resume it
		default:
			end = q.notResumed
		}
	}
	if err := end(ctx, q.trial.ID); err != nil {
		q.options.Logger.Error("clear suspect run", "run", q.trial.ID, "error", err)
		return
	}
	q.trial = nil
	if q.alone.is {
		q.alone.wanted = now
		q.options.Waiting()
	}
}

// notResumed records that this process has not resumed a suspect.
func (q *Service) notResumed(ctx context.Context, run string) error {
	return q.options.Store.NotResumed(ctx, run, q.options.Owner)
}
