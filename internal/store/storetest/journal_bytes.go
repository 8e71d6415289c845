package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// journaled is a run for which the test counts the committed journal bytes itself.
type journaled struct {
	s     store.Store
	id    string
	epoch int64
	entry int64
	seq   int64
	bytes int64
}

func newJournaled(t *testing.T, s store.Store, tenant, id string, log int) *journaled {
	t.Helper()
	r := &journal.Creation{
		ID:       id,
		Tenant:   tenant,
		Agent:    "a",
		Title:    "hi",
		Owner:    "me",
		LeaseTTL: lease,
		Log:      make([]byte, log),
	}
	require.NoError(t, s.Create(t.Context(), r))
	return &journaled{s: s, id: id, epoch: 1, entry: 1, bytes: r.Bytes()}
}

// next returns the run's next commit, with a log entry of log bytes and an event of events bytes; 0
// omits the entry or the event. status is the status in the progress, which only a commit with a
// log entry has.
func (r *journaled) next(log, events int, status journal.Status) *journal.Commit {
	c := &journal.Commit{Run: r.id, Epoch: r.epoch, Entry: r.entry, First: r.seq + 1, Last: r.seq, LeaseTTL: lease}
	if log > 0 {
		c.Entry++
		c.Log, c.Progress = make([]byte, log), &journal.Progress{Status: status}
	}
	if events > 0 {
		c.Last++
		c.Events = make([]byte, events)
	}
	return c
}

func (r *journaled) commit(c *journal.Commit) error {
	err := r.s.Commit(context.Background(), c)
	if err == nil {
		r.entry, r.seq, r.bytes = c.Entry, c.Last, r.bytes+c.Bytes()
	}
	return err
}

// requireJournal checks the size of a tenant's journals, and the number of bytes that the
// tenant wrote today.
func requireJournal(t *testing.T, n *store.Tenant, stored, today int64) {
	t.Helper()
	got, err := n.JournalBytes(t.Context())
	require.NoError(t, err)
	require.Equal(t, stored, got, "kept")
	day := store.Day(time.Now())
	rows, _, err := n.Usage(t.Context(), day, day, store.Page{})
	require.NoError(t, err)
	var total store.Usage
	for _, r := range rows {
		total.Add(r)
	}
	require.Equal(t, today, total.JournalBytes, "today")
}

// testJournalBytes checks that the bytes of a journal are counted exactly once, for several
// sequences of commits.
func testJournalBytes(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	r := newJournaled(t, s, "acme", "r", 1000)
	requireJournal(t, acme, 0, 0)
	require.NoError(t, r.commit(r.next(0, 1000, "")))
	requireJournal(t, acme, 0, 0) // few bytes of a run in progress
	require.NoError(t, r.commit(r.next(0, 65<<10, "")))
	requireJournal(t, acme, r.bytes, r.bytes)
	require.NoError(t, r.commit(r.next(0, 10, "")))
	large := r.next(200<<10, 300<<10, journal.StatusRunning)
	require.NoError(t, r.commit(large))
	require.NoError(t, s.Commit(ctx, large), "the response was lost, and the commit is repeated")
	requireJournal(t, acme, r.bytes, r.bytes)
	require.NoError(t, r.commit(r.next(10, 10, journal.StatusPaused)))
	requireJournal(t, acme, r.bytes, r.bytes)

	stored, err := s.Claim(ctx, &journal.Claim{Run: "r", Epoch: 1, Owner: "other", LeaseTTL: -time.Second})
	require.NoError(t, err)
	require.Equal(t, r.bytes, stored.JournalBytes)
	require.ErrorIs(t, s.Commit(ctx, r.next(10, 10, journal.StatusRunning)), journal.ErrFenced)
	r.epoch = stored.Epoch
	late := r.next(10, 10, journal.StatusRunning)
	late.LeaseTTL = -time.Second
	require.NoError(t, r.commit(late))
	require.NoError(t, s.Abandon(ctx, "r", "its process is gone"))
	info, err := s.Run(ctx, "r")
	require.NoError(t, err)
	require.Greater(t, info.JournalBytes, r.bytes, "its last event")
	requireJournal(t, acme, info.JournalBytes, info.JournalBytes)
	require.NoError(t, acme.AddTrace(ctx, "r", make([]byte, 1000), 0))
	traced, err := s.Run(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, info.JournalBytes+1128, traced.JournalBytes)
	requireJournal(t, acme, traced.JournalBytes, traced.JournalBytes)

	other := newJournaled(t, s, "acme", "large", 300<<10)
	total := traced.JournalBytes + other.bytes
	requireJournal(t, acme, total, total)
	newTenant(t, s, "beta", store.TenantQuota{})
	of := newJournaled(t, s, "beta", "of another tenant", 300<<10)
	all, err := s.JournalBytes(ctx)
	require.NoError(t, err)
	require.Equal(t, total+of.bytes, all)
	require.NoError(t, of.commit(of.next(10, 0, journal.StatusFinished)))
	require.NoError(t, s.Delete(ctx, "of another tenant"))
	cut := newJournaled(t, s, "acme", "expired", 1000)
	gone := cut.next(1000, 0, journal.StatusRunning)
	gone.LeaseTTL = -time.Second
	require.NoError(t, cut.commit(gone))
	require.NoError(t, s.Delete(ctx, "expired"))
	requireJournal(t, acme, total, total)
	require.NoError(t, s.Delete(ctx, "r"))
	requireJournal(t, acme, other.bytes, total)
	require.NoError(t, other.commit(other.next(10, 10, journal.StatusFinished)))
	requireJournal(t, acme, other.bytes, traced.JournalBytes+other.bytes)
	n, err := s.Prune(ctx, store.PruneOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireJournal(t, acme, 0, traced.JournalBytes+other.bytes)

	own := newJournaled(t, s, store.Operator, "own", 300<<10)
	require.NoError(t, own.commit(own.next(300<<10, 10, journal.StatusFinished)))
	info, err = s.Run(ctx, "own")
	require.NoError(t, err)
	require.Equal(t, own.bytes, info.JournalBytes)
	unknown := newJournaled(t, s, "without a platform", "unknown", 10)
	require.NoError(t, unknown.commit(unknown.next(0, 100<<10, "")), "a tenant without a row has no quota")
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
}

// testJournalQuotas checks that runs neither start nor resume beyond a quota, and that a
// commit reports the quota that a run in progress exceeds.
func testJournalQuotas(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	for _, quota := range []string{"journal_bytes", "journal_bytes_per_day"} {
		id := quota[len("journal_"):]
		q := store.TenantQuota{JournalBytes: 100 << 10}
		if quota == "journal_bytes_per_day" {
			q = store.TenantQuota{JournalBytesPerDay: 100 << 10}
		}
		acme := newTenant(t, s, id, q)
		r := newJournaled(t, s, id, id, 10)
		require.NoError(t, acme.CheckRunQuotas(ctx))
		some := r.next(70<<10, 0, journal.StatusRunning)
		require.NoError(t, r.commit(some))
		require.Nil(t, some.Full)
		for _, c := range []*journal.Commit{r.next(70<<10, 10, journal.StatusRunning), r.next(0, 70<<10, "")} {
			c.Entry, c.First, c.Last = r.entry, r.seq+1, r.seq+1
			if c.Log != nil {
				c.Entry++
			}
			require.NoError(t, r.commit(c), "the step is stored")
			require.NotNil(t, c.Full)
			require.Equal(t, journal.FullError{Limit: quota, Max: 100 << 10, Used: r.bytes, Quota: true}, *c.Full)
		}
		last := r.next(70<<10, 100, journal.StatusFinished)
		require.NoError(t, r.commit(last))
		require.Nil(t, last.Full, "the run is finished")
		requireJournalQuota(t, acme, quota)

		require.NoError(t, s.Delete(ctx, id))
		if quota == "journal_bytes" {
			require.NoError(t, acme.CheckRunQuotas(ctx), "deleting the run frees its bytes")
		} else {
			requireJournalQuota(t, acme, quota)
		}
	}

	// A tenant without a quota has the default one.
	acme := newTenant(t, s, "default", store.TenantQuota{})
	today := store.Day(time.Now())
	require.NoError(t,
		acme.AddUsage(ctx, store.Usage{Day: today, Agent: "a", JournalBytes: store.DefaultJournalBytesPerDay - 1}))
	require.NoError(t, acme.CheckRunQuotas(ctx))
	require.NoError(t, acme.AddUsage(ctx, store.Usage{Day: today, Agent: "a", JournalBytes: 1}))
	requireJournalQuota(t, acme, "journal_bytes_per_day")
}

// requireJournalQuota checks that a quota prevents a tenant's runs from starting and resuming.
func requireJournalQuota(t *testing.T, n *store.Tenant, quota string) {
	t.Helper()
	for _, err := range []error{
		n.AdmitRun(t.Context(), "new", "a", true), n.AdmitRun(t.Context(), "resumed", "a", false), n.CheckRunQuotas(t.Context()),
		n.Journal().Create(t.Context(), &journal.Creation{
			ID: "new " + n.ID(), Agent: "a", Owner: "me", LeaseTTL: lease, Log: []byte("x"),
		}),
	} {
		var full *store.QuotaError
		require.ErrorAs(t, err, &full)
		require.Equal(t, quota, full.Quota)
		require.Equal(t, quota == "journal_bytes_per_day", full.RetryAfter > 0,
			"a day ends by itself; stored bytes must be deleted")
	}
}

// testConcurrentJournalBytes checks that the counted bytes are exact after several machines
// concurrently wrote and deleted runs of a tenant.
func testConcurrentJournalBytes(t *testing.T, open Opener) {
	s, where := open(t, nil)
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	var mu sync.Mutex
	var stored, written int64
	var wg sync.WaitGroup
	for machine := range 2 {
		other := again(t, where)
		for i := range 4 {
			wg.Go(func() {
				r := newJournaled(t, other, "acme", fmt.Sprint(machine, "-", i), 10)
				for n := range 6 {
					status := journal.StatusRunning
					if n == 5 {
						status = journal.StatusFinished
					}
					if err := r.commit(r.next(20<<10, 1000*i, status)); err != nil {
						t.Error(err)
					}
				}
				if err := other.Tenant("acme").AddTrace(context.Background(), r.id, make([]byte, 872), 0); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				written += r.bytes + 1000
				if i%2 == 0 {
					stored += r.bytes + 1000
				} else if err := other.Delete(context.Background(), r.id); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	requireJournal(t, acme, stored, written)
}
