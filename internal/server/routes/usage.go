package routes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/store"
)

// usagePrefix and the name of a route are the agent's name in the usage of the route. Names of
// agents contain no colon.
const usagePrefix = "gateway:"

// maxTokens limits the number of tokens that one request adds to the usage, because upstreams
// report the number.
const maxTokens = 100_000_000

// ended adds a request that has ended to the tenant's usage, and logs it without its content.
func (s *Service) ended(tenant string, rt *route, e *gateway.End) {
	input, output := tokens(e.Tokens.Total()-e.Tokens.Output), tokens(e.Tokens.Output)
	s.usage.add(tenant, append(rt.modules(e.Entries), store.Usage{Agent: usagePrefix + rt.name, Runs: 1, Calls: 1,
		WallMS: e.Took.Milliseconds(), PromptTokens: input, CompletionTokens: output}))
	s.o.Logger.Info("request through a route", "tenant", tenant, "route", rt.name, "run", e.Run, "outcome", e.Outcome,
		"took", e.Took, "input", input, "output", output, "denied", e.Denied)
}

// observe logs e if it reports a fault of a module, without the fault's text.
func (s *Service) observe(tenant string, rt *route, e abi.Event) {
	if e.Type == abi.EventFault {
		s.o.Logger.Info("module failed", "tenant", tenant, "route", rt.name, "run", e.Run, "entry", e.Entry, "hook", e.Hook)
	}
}

func tokens(n int64) int64 { return min(max(n, 0), maxTokens) }

// modules returns the usage of the tenant's own modules in a route, given the statistics of one
// request.
func (r *route) modules(stats []abi.EntryStats) (rows []store.Usage) {
	for _, e := range stats {
		own := slices.ContainsFunc(r.pins, func(p journal.Pin) bool {
			return p.Entry == e.Entry && p.Ring == hook.Tenant.String() && p.Digest != ""
		})
		if own && (e.Calls > 0 || e.Fuel > 0) {
			rows = append(rows, store.Usage{Agent: usagePrefix + r.name, Module: e.Digest, Fuel: e.Fuel, Calls: e.Calls,
				WallMS: e.WallUS / 1000})
		}
	}
	return rows
}

// A ledger adds usage to the store. It collects the rows that arrive while it writes others, so
// that many requests need few transactions.
type ledger struct {
	store store.Store
	log   *slog.Logger
	start func(func())

	mu      sync.Mutex
	pending map[string]map[usageKey]store.Usage // by tenant
	size    int
	writing bool
}

type usageKey struct{ agent, module string }

// maxPending limits the rows in memory while the database is not available. Further rows are lost.
const maxPending = 100_000

// Timeout, interval and number of retries for writing usage to the store.
const (
	usageTimeout = 10 * time.Second
	usageRetry   = time.Second
	usageRetries = 60
)

func newLedger(o *Options) *ledger {
	return &ledger{store: o.Store, log: o.Logger, start: o.Go, pending: map[string]map[usageKey]store.Usage{}}
}

// add adds rows to the usage of a tenant on the current day.
func (l *ledger) add(tenant string, rows []store.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.merge(tenant, rows)
	if !l.writing {
		l.writing = true
		l.start(l.write)
	}
}

// merge adds rows to the pending rows of a tenant. The caller holds the lock.
func (l *ledger) merge(tenant string, rows []store.Usage) {
	all := l.pending[tenant]
	if all == nil {
		all = map[usageKey]store.Usage{}
		l.pending[tenant] = all
	}
	for _, u := range rows {
		key := usageKey{u.Agent, u.Module}
		sum, known := all[key]
		if !known && l.size >= maxPending {
			l.log.Error("usage is not counted: too much of it waits for the database", "tenant", tenant)
			return
		}
		if !known {
			sum = store.Usage{Agent: u.Agent, Module: u.Module}
			l.size++
		}
		sum.Add(u)
		all[key] = sum
	}
}

// take removes and returns all pending rows. If there are none, it records that write ends.
func (l *ledger) take() map[string]map[usageKey]store.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.pending
	l.pending, l.size = map[string]map[usageKey]store.Usage{}, 0
	l.writing = len(out) > 0
	return out
}

// write writes pending rows to the store until there are none.
func (l *ledger) write() {
	for batch := l.take(); len(batch) > 0; batch = l.take() {
		for tenant, rows := range batch {
			l.commit(tenant, slices.Collect(maps.Values(rows)))
		}
	}
}

// commit adds rows to the usage of a tenant in one transaction. If that fails, it waits for a second and
// tries again, at most usageRetries times. Then it logs the error, and the rows are lost.
func (l *ledger) commit(tenant string, rows []store.Usage) {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
		err := l.store.Tenant(tenant).AddUsage(ctx, rows...)
		cancel()
		switch {
		case err == nil, errors.Is(err, store.ErrNoTenant):
			return
		case try == usageRetries:
			l.log.Error("usage is not counted", "tenant", tenant, "error", err)
			return
		}
		time.Sleep(usageRetry)
	}
}
