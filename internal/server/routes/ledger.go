package routes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// A ledger adds usage to the store. It collects the rows that arrive while it writes others, so
// that many requests need few transactions. One goroutine writes, while there are rows. If the store
// fails, at most maxPending rows stay in memory, for about usageTTL.
type ledger struct {
	store func(ctx context.Context, tenant string, rows []store.Usage) error
	log   *slog.Logger
	start func(func())
	abort <-chan struct{} // ends retries; nil is never closed

	mu      sync.Mutex
	pending map[string]*backlog // by tenant
	size    int                 // rows of pending
	writing bool
}

// A backlog holds the rows of a tenant that the store does not have yet.
type backlog struct {
	rows  map[usageKey]store.Usage
	since time.Time // when the first attempt to store rows failed; zero if none did
}

type usageKey struct{ agent, module string }

// maxPending limits the rows in memory while the database is not available. Further rows are lost.
const maxPending = 100_000

// Limits on writing usage to the store.
const (
	usageTimeout = 10 * time.Second // for one attempt
	usageRetry   = time.Second      // pause before the next attempt
	usageAbort   = time.Second      // for all attempts after abort
	usageTTL     = 10 * time.Minute // from a tenant's first failed attempt to the failure that loses its rows
)

func newLedger(o *Options) *ledger {
	return &ledger{log: o.Logger, start: o.Go, abort: o.Abort, pending: map[string]*backlog{},
		store: func(ctx context.Context, tenant string, rows []store.Usage) error {
			return o.Store.Tenant(tenant).AddUsage(ctx, rows...)
		}}
}

// add adds rows to the usage of a tenant on the current day.
func (l *ledger) add(tenant string, rows []store.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.merge(tenant, rows, time.Time{})
	if !l.writing {
		l.writing = true
		l.start(l.write)
	}
}

// merge adds rows to the pending rows of a tenant. since is the time of their first failed attempt, or
// zero. The caller holds the lock.
func (l *ledger) merge(tenant string, rows []store.Usage, since time.Time) {
	b := l.pending[tenant]
	if b == nil {
		b = &backlog{rows: map[usageKey]store.Usage{}}
		l.pending[tenant] = b
	}
	if !since.IsZero() {
		b.since = since
	}
	for i, u := range rows {
		key := usageKey{u.Agent, u.Module}
		sum, known := b.rows[key]
		if !known && l.size >= maxPending {
			l.lose(tenant, rows[i:], errors.New("too many rows wait for the database"))
			return
		}
		if !known {
			sum = store.Usage{Agent: u.Agent, Module: u.Module}
			l.size++
		}
		sum.Add(u)
		b.rows[key] = sum
	}
}

// take removes and returns all pending rows. If there are none, it records that write ends.
func (l *ledger) take() map[string]*backlog {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.pending
	l.pending, l.size = map[string]*backlog{}, 0
	l.writing = len(out) > 0
	return out
}

// write writes pending rows to the store until there are none. After abort, it does not try again, and
// attempts end after usageAbort.
func (l *ledger) write() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.abort:
			time.AfterFunc(usageAbort, cancel)
		case <-ctx.Done():
		}
	}()
	for batch := l.take(); len(batch) > 0; batch = l.take() {
		failed := false
		for tenant, b := range batch {
			failed = !l.commit(ctx, tenant, b) || failed
		}
		if failed {
			select {
			case <-time.After(usageRetry):
			case <-l.abort:
			}
		}
	}
}

// commit adds the rows of a backlog to the usage of a tenant in one transaction. It reports false if that
// fails and the rows are pending again. It logs rows that are lost.
func (l *ledger) commit(ctx context.Context, tenant string, b *backlog) bool {
	rows := slices.Collect(maps.Values(b.rows))
	attempt, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	err := l.store(attempt, tenant, rows)
	if err == nil || errors.Is(err, store.ErrNoTenant) {
		return true
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	if l.aborted() || time.Since(b.since) >= usageTTL {
		l.lose(tenant, rows, err)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.merge(tenant, rows, b.since)
	return false
}

// aborted reports whether abort is closed.
func (l *ledger) aborted() bool {
	select {
	case <-l.abort:
		return true
	default:
		return false
	}
}

// lose logs rows that the store will not have.
func (l *ledger) lose(tenant string, rows []store.Usage, why error) {
	var sum store.Usage
	for _, u := range rows {
		if u.Module == "" {
			sum.Add(u)
		}
	}
	l.log.Error("usage of routes is lost", "tenant", tenant, "rows", len(rows), "requests", sum.Runs,
		"input", sum.PromptTokens, "output", sum.CompletionTokens, "error", why)
}
