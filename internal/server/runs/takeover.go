package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits on taking over runs whose server has ended.
const (
	// takeoverInterval is the time between two searches for expired leases. A lease expires when
	// the option LeaseTTL has passed since the last heartbeat of the run's server. The default is
	// [journal.DefaultLeaseTTL].
	takeoverInterval      = 3 * time.Second
	maxWaiting            = 200 // runs that a search reads, of all tenants together
	maxWaitingPerTenant   = 50
	maxTakeoversPerTenant = 10 // runs that are taken over after a search
	// MaxTakeoverTime is the time for which a server retries a run whose agent cannot be
	// built, for example because a key is missing or an MCP server does not respond.
	MaxTakeoverTime = time.Hour
)

// TakeOver resumes runs of servers that have ended, until ctx is done or the server drains. It
// searches for such runs after each hint of a server that there are some, and every takeoverInterval,
// but not while leases cannot be trusted. While a search leaves runs behind, the next one follows soon.
func (r *Service) TakeOver(ctx context.Context) {
	hinted, stop, err := hints.Signal(r.options.Hints, topicWaiting)
	if err != nil {
		r.log.Error("subscribe to runs without a server", "error", err)
	}
	defer stop()
	clock := &leaseClock{}
	for {
		wait := takeoverInterval
		remote, err := r.store.Now(ctx)
		if err == nil && clock.trust(remote, r.options.Now(), cmp.Or(r.options.LeaseTTL, journal.DefaultLeaseTTL)) {
			wait, err = r.takeOverAll(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Error("look for runs without a server", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.options.Draining:
			return
		case <-time.After(wait):
		case <-hinted:
		case <-r.left:
		}
	}
}

// Waiting sends a hint to all servers, this one included, that there may be runs to take over.
func (r *Service) Waiting() { r.hint(topicWaiting, nil) }

// SpecPrefix is the beginning of the spec of every run that a server started. Runs that the command
// line started have other specs. Servers neither take them over nor end them.
const SpecPrefix = `{"agent":"`

// TakeOverAll starts to resume runs whose leases have expired, up to maxTakeoversPerTenant for each
// tenant. It leaves runs to servers that are in a better place to resume them; see
// [Options.Servers]. It does nothing while the server rejects new runs because memory is short.
func (r *Service) TakeOverAll(ctx context.Context) error {
	_, err := r.takeOverAll(ctx)
	return err
}

// takeOverAll is [Service.TakeOverAll], and returns the time until the next search.
func (r *Service) takeOverAll(ctx context.Context) (wait time.Duration, err error) {
	wait = takeoverInterval
	if r.options.Overload.State().Rejecting {
		return wait, nil // the next call tries again
	}
	list, err := r.store.ExpiredRuns(ctx, []byte(SpecPrefix), maxWaiting, maxWaitingPerTenant)
	if err != nil {
		return wait, err
	}
	r.failedTakeovers.Range(func(id, _ any) bool {
		if !slices.ContainsFunc(list, func(info journal.RunInfo) bool { return info.ID == id }) {
			r.failedTakeovers.Delete(id) // in progress elsewhere, or over
		}
		return true
	})
	r.held.Range(func(id, _ any) bool {
		if !slices.ContainsFunc(list, func(info journal.RunInfo) bool { return info.ID == id }) {
			r.held.Delete(id)
		}
		return true
	})
	place, ages := r.placement(), r.waiting.ages(list)
	of := map[string][]*waitingRun{}
	for i := range list {
		w := &waitingRun{RunInfo: &list[i], delay: place.delay(&list[i])}
		if r.Active.Get(w.Tenant, w.ID) != nil {
			continue
		}
		if left := w.delay - ages[i]; left > 0 {
			wait = min(wait, left, searchDelay)
			continue
		}
		if _, held := r.held.Load(w.ID); held {
			w.delay += takeoverInterval // behind the tenant's other runs
		}
		of[w.Tenant] = append(of[w.Tenant], w)
	}
	for tenant, its := range of {
		slices.SortStableFunc(its, func(a, b *waitingRun) int { return cmp.Compare(a.delay, b.delay) })
		r.takeOverTenant(ctx, tenant, its[:min(len(its), maxTakeoversPerTenant)])
	}
	return wait, nil
}

// takeOverTenant resumes runs of a tenant. It does nothing if runs of the tenant are already being taken
// over. A slow run, for example because of an MCP server that does not respond, only delays its own
// tenant. If a run no longer waits afterwards, takeOverTenant causes another search, because the tenant
// may have more.
func (r *Service) takeOverTenant(ctx context.Context, tenant string, list []*waitingRun) {
	if _, under := r.taking.LoadOrStore(tenant, true); under {
		return
	}
	r.options.Go(func() {
		var all sync.WaitGroup
		var progress atomic.Bool
		for _, w := range list {
			select {
			case <-r.options.Draining:
			case <-ctx.Done():
			default:
				all.Go(func() {
					if r.TakeOverRun(ctx, w.RunInfo) {
						progress.Store(true)
					}
				})
			}
		}
		all.Wait()
		r.taking.Delete(tenant)
		if progress.Load() {
			select {
			case r.left <- struct{}{}:
			default:
			}
		}
	})
}

// TakeOverRun resumes a run if the option Judge allows it. It reports whether this server or another one
// has claimed the run, or the run has finished. It ends a run that can never resume, or whose agent could
// not be built for MaxTakeoverTime, and reports false.
func (r *Service) TakeOverRun(ctx context.Context, info *journal.RunInfo) (claimed bool) {
	t := r.store.Tenant(info.Tenant)
	log := r.log.With("tenant", info.Tenant, "run", info.ID)
	if resume, err := r.options.Judge(ctx, info); err != nil {
		log.Error("read how a run's server ended", "error", err)
		return false
	} else if !resume {
		r.held.Store(info.ID, true)
		return false
	}
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		reason := err.Error()
		if p := (*refcache.PanicError)(nil); errors.As(err, &p) {
			log, reason = log.With("stack", string(p.Stack)), "the server failed to build its agent"
		}
		now := r.options.Now()
		since, _ := r.failedTakeovers.LoadOrStore(info.ID, now)
		if gone := ctx.Err() == nil && now.Sub(since.(time.Time)) > MaxTakeoverTime; gone ||
			errors.Is(err, store.ErrNoAgent) ||
			errors.Is(err, store.ErrNoModule) ||
			isPermanent(err) {
			log.Warn("run cannot be resumed", "error", err)
			if err := r.abandon(ctx, t, info, "its server is gone and it cannot be resumed: "+reason); err != nil {
				log.Error("end a run that cannot be resumed", "error", err)
			}
			return false
		}
		log.Warn("take over run", "error", err)
		return false
	}
	result := make(chan bool, 1)
	resumed, err := r.run(t, info.ID, o, nil, func(ctx context.Context) (iter.Seq2[delivery.Event, error], error) {
		events, err := o.ContinueFor(ctx, info.ID, nil, nil)
		var pins *journal.PinError
		switch {
		case err == nil:
			log.Info("run taken over")
			result <- true
		case errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrFinished): // another server came first
			result <- true
		case errors.As(err, &pins):
			result <- false
			log.Warn("run cannot be resumed", "error", err)
			if err := r.abandon(ctx, t, info, err.Error()); err != nil {
				log.Error("end a run that cannot be resumed", "error", err)
			}
		default:
			result <- false
			log.Error("take over run", "error", err)
		}
		return events, err
	})
	if err != nil {
		log.Debug("run not taken over", "error", err)
		return true // the run is in progress here
	}
	resumed.announce() // its followers wait for hints of the server that has ended
	return <-result
}

// isPermanent reports whether a failure to build an agent is permanent. Problems with the agent or
// its tenant are, such as a blocked module. Exceeded quotas, problems of the server, such as
// overload, and all other errors are temporary.
func isPermanent(err error) bool {
	var p *httpapi.Problem
	return errors.As(err, &p) && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}

// A leaseClock detects when leases cannot be trusted. If the database's clock was set forward
// or this machine slept, live runs appear expired until their servers send another heartbeat.
type leaseClock struct {
	database, local time.Time // at the last call of trust
	until           time.Time // leases are not trusted before this time of the local clock
}

// trust reports whether expired leases can be trusted. remote is the time by the database's clock,
// and local the time by the local monotonic clock. They cannot be trusted for the duration lease
// after the database's clock has advanced by over half a lease more than the local one between two
// calls. The first call returns true.
func (c *leaseClock) trust(remote, local time.Time, lease time.Duration) bool {
	if !c.local.IsZero() && remote.Sub(c.database)-local.Sub(c.local) > lease/2 {
		c.until = local.Add(lease)
	}
	c.database, c.local = remote, local
	return !local.Before(c.until)
}
