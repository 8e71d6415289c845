package server

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How runs that ended their process are found.
const (
	heartbeatInterval = time.Second
	pressureInterval  = 100 * time.Millisecond // the heartbeat's while new runs are rejected
	maxAccounts       = 64                     // of a heartbeat, the largest

	// A run wants more than its share if its modules waited for room for what they emit
	// for more than overPart of the time. That is evidence after overTime.
	overPart = 0.5
	overTime = 3 * time.Second
	// trialTime is how long a suspect runs alone before the next one is resumed.
	trialTime = 10 * time.Second
)

// A quarantine decides which runs are resumed whose process ended uncleanly.
//
// A process tells the store each second how much memory it uses and which of its runs hold
// the most. Another process that takes such a run over reads that. A run that wanted more
// than its share until the end is quarantined. If memory was short the others are suspects,
// which are resumed one at a time: one that is resumed alone and then holds the most when
// memory is short again at the end of that process is quarantined too.
type quarantine struct {
	server *Server
	of     *account.Account // the process's
	node   string
	cgroup string

	mu    sync.Mutex
	seen  map[string]*blockage // by run
	trial *journal.RunInfo     // the suspect that was resumed here; nil if there is none
	since time.Time            // when
}

// A blockage is the part of the last seconds in which a run wanted more than its share.
type blockage struct {
	at     time.Time
	excess time.Duration
	part   float64
	over   time.Time // since when part is above overPart; zero if it isn't
}

// next returns the blockage at a later time. Times in quick succession say nothing.
func (b *blockage) next(now time.Time, excess time.Duration) *blockage {
	if b == nil {
		return &blockage{at: now, excess: excess}
	}
	took := now.Sub(b.at)
	if took < heartbeatInterval/2 {
		return b
	}
	n := &blockage{at: now, excess: excess, part: 0.7*b.part + 0.3*float64(excess-b.excess)/float64(took)}
	if n.part > overPart {
		if n.over = b.over; n.over.IsZero() {
			n.over = now
		}
	}
	return n
}

func newQuarantine(s *Server) *quarantine {
	node, _ := os.Hostname()
	cgroup, _ := overload.Cgroup()
	return &quarantine{server: s, of: account.Process(), node: node, cgroup: cgroup, seen: map[string]*blockage{}}
}

// watch sends heartbeats until ctx ends.
func (q *quarantine) watch(ctx context.Context) {
	owner := q.server.options.Owner
	if owner == "" {
		return
	}
	for {
		state := q.server.overload.State()
		if err := q.server.store.Heartbeat(ctx, q.process(state), q.accounts(time.Now(), state)); err != nil && ctx.Err() == nil {
			q.server.log.Error("heartbeat failed", "error", err)
		}
		q.endTrial(ctx, time.Now(), state)
		wait := heartbeatInterval
		if state.Rejecting || q.trying() {
			wait = pressureInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// begin stores the first heartbeat, before runs are resumed here. It says of the processes
// before whether the kernel killed them for want of memory.
func (q *quarantine) begin(ctx context.Context) {
	if q.server.options.Owner == "" {
		return
	}
	if err := q.server.store.StartProcess(ctx, q.process(q.server.overload.State())); err != nil {
		q.server.log.Error("first heartbeat failed", "error", err)
	}
}

// process returns what a heartbeat says of the process.
func (q *quarantine) process(state overload.State) *store.Process {
	_, kills := overload.Cgroup()
	return &store.Process{Owner: q.server.options.Owner, Node: q.node, Pressure: int64(1000 * state.Pressure), Used: state.Used, Limit: state.Limit,
		Cgroup: q.cgroup, OOMKills: kills}
}

// trying reports whether a suspect runs here.
func (q *quarantine) trying() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.trial != nil
}

// end says that the process ends by itself.
func (q *quarantine) end() {
	if q.server.options.Owner == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := q.server.store.EndProcess(ctx, q.server.options.Owner); err != nil {
		q.server.log.Error("the server's end is not stored", "error", err)
	}
}

// accounts returns what a heartbeat says of the runs: all that want more than their share,
// and if memory may become short, or a suspect runs here, the largest.
func (q *quarantine) accounts(now time.Time, state overload.State) (out []store.RunAccount) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := make(map[string]*blockage, len(q.seen))
	for _, a := range q.of.Evictables() {
		b := q.seen[a.Name()].next(now, a.Excess())
		seen[a.Name()] = b
		r := store.RunAccount{Run: a.Name(), Held: a.Used(), Share: a.Limit()}
		if !b.over.IsZero() {
			r.Over = now.Sub(b.over)
		}
		if len(out) < maxAccounts && (state.Pressure > 0.5 || q.trial != nil || exceeded(&r)) {
			out = append(out, r)
		}
	}
	q.seen = seen
	return out
}

// exceeded reports whether a run wanted more than its share.
func exceeded(r *store.RunAccount) bool {
	return r.Over >= overTime || r.Share > 0 && r.Held > r.Share
}

// judge reports whether a run may be resumed here now whose process is gone. If it is to
// blame for that, it is quarantined.
func (q *quarantine) judge(ctx context.Context, info *journal.RunInfo) (resume bool, err error) {
	d, err := q.server.store.CrashOf(ctx, info.Owner, info.ID)
	if err != nil || d == nil {
		return err == nil, err
	}
	memory := d.Killed || d.Pressure >= 1000*overload.RejectAt
	reason := ""
	switch {
	case exceeded(&d.Account):
		reason = fmt.Sprintf("its server ended while the run wanted to hold more than its share of %d bytes", d.Account.Share)
	case memory && d.Alone && d.Largest:
		reason = "its server ran out of memory twice; the second time the run was the only one resumed after the first"
	case memory:
		return q.try(ctx, info)
	default:
		return true, nil
	}
	q.server.log.Warn("run quarantined", "tenant", info.Tenant, "run", info.ID, "reason", reason, "held", d.Account.Held, "used", d.Used, "limit", d.Limit)
	return false, q.server.store.Quarantine(ctx, info, &store.Evidence{Node: d.Node, Reason: reason, Held: d.Account.Held, Share: d.Account.Share,
		Used: d.Used, Limit: d.Limit, Memory: memory})
}

// try reports whether a suspect may be resumed: one at a time is.
func (q *quarantine) try(ctx context.Context, info *journal.RunInfo) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trial != nil {
		return false, nil
	}
	if err := q.server.store.Suspect(ctx, info.ID, q.server.options.Owner); err != nil {
		return false, err
	}
	q.trial, q.since = info, time.Now()
	q.server.log.Info("a run is resumed alone: memory was short when its server ended", "tenant", info.Tenant, "run", info.ID)
	return true, nil
}

// endTrial clears the suspect once it ended, or ran for trialTime without memory pressure.
func (q *quarantine) endTrial(ctx context.Context, now time.Time, state overload.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trial == nil || state.Rejecting {
		return
	}
	runs := q.server.runs.lives.get(q.trial.Tenant, q.trial.ID) != nil
	if took := now.Sub(q.since); took < trialTime && (runs || took < heartbeatInterval) {
		return
	}
	if err := q.server.store.Clear(ctx, q.trial.ID); err != nil {
		q.server.log.Error("a run that is suspect no more is not stored as such", "run", q.trial.ID, "error", err)
		return
	}
	q.trial = nil
}

// A QuarantinedRun is one as the operator is shown it.
type QuarantinedRun struct {
	Run         string    `json:"run"`
	Tenant      string    `json:"tenant"`
	Node        string    `json:"node" doc:"The machine of the server that crashed."`
	Reason      string    `json:"reason"`
	HeldBytes   int64     `json:"held_bytes" doc:"Memory that the server held for the run at its last heartbeat."`
	ShareBytes  int64     `json:"share_bytes" doc:"Memory that the server may hold for the run."`
	UsedBytes   int64     `json:"used_bytes" doc:"Memory that the server used at its last heartbeat."`
	LimitBytes  int64     `json:"limit_bytes" doc:"The server's memory limit."`
	OutOfMemory bool      `json:"out_of_memory" doc:"The server was short of memory at its last heartbeat."`
	Created     time.Time `json:"created"`
}

type quarantinedOutput struct {
	Body struct {
		Runs []QuarantinedRun `json:"runs" nullable:"false"`
		ListOutput
	}
}

func (q *quarantine) routes(s *Server) {
	const tag = "quarantine"
	route(s, Route{ID: "list-quarantined", Method: "GET", Path: "/v1/quarantine", Scope: OperatorScope, Tag: tag, Summary: "List quarantined runs",
		About: "Lists runs that are not resumed because they appear to have crashed their server, with the evidence."}, q.list)
	route(s, Route{ID: "release-run", Method: "DELETE", Path: "/v1/quarantine/{run}", Scope: OperatorScope, Tag: tag, Summary: "Release a quarantined run",
		About: "A server resumes it within seconds."}, q.release)
}

func (q *quarantine) list(ctx context.Context, _ *Caller, in *LongListInput) (*quarantinedOutput, error) {
	page, err := in.page(listQuarantined, store.Operator, in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := q.server.store.Quarantined(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &quarantinedOutput{}
	out.Body.Runs = []QuarantinedRun{}
	out.Body.setNext(listQuarantined, store.Operator, next)
	for _, e := range list {
		out.Body.Runs = append(out.Body.Runs, QuarantinedRun{Run: e.Run, Tenant: e.Tenant, Node: e.Node, Reason: e.Reason, HeldBytes: e.Held,
			ShareBytes: e.Share, UsedBytes: e.Used, LimitBytes: e.Limit, OutOfMemory: e.Memory, Created: e.Created.UTC()})
	}
	return out, nil
}

func (q *quarantine) release(ctx context.Context, _ *Caller, in *runPath) (*struct{}, error) {
	return nil, q.server.store.Release(ctx, in.Run)
}
