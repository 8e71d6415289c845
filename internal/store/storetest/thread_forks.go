package storetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// textsOf returns the texts of a thread.
func textsOf(t *testing.T, n *store.Tenant, thread string) (out []string) {
	t.Helper()
	h, err := n.Thread(t.Context(), thread)
	require.NoError(t, err)
	page := &store.MessagePage{Version: h.Version, Limit: 5000, MaxBytes: 1 << 30}
	list, _, err := n.ThreadMessages(t.Context(), thread, page)
	require.NoError(t, err)
	require.Len(t, list, int(h.Messages))
	for _, m := range list {
		out = append(out, contentOf(t, m.Body))
	}
	return out
}

// testThreadForks checks that forks copy the messages up to a message or the end of a run, also large
// ones, and that both threads then change independently.
func testThreadForks(t *testing.T, open Opener) {
	ctx := t.Context()
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	large := strings.Repeat("x", 300<<10)
	require.NoError(t, startOn(t, n, "r1", 0))
	endOn(t, s, "r1", nil, 0, threadItem("m1", "hello"), threadItem("m2", large))
	require.NoError(t, startOn(t, n, "r2", 2))
	fork := func(id string, f store.ThreadFork) (*store.Thread, error) {
		f.Thread = "h"
		return n.ForkThread(ctx, &store.Thread{ID: id, Agent: "a"}, &f)
	}
	_, err := fork("f", store.ThreadFork{Run: "r2"})
	require.ErrorIs(t, err, store.ErrInUse)
	endOn(t, s, "r2", nil, 1, threadItem("m3", "replaced"))

	h, err := fork("f", store.ThreadFork{})
	require.NoError(t, err)
	require.Equal(t, "h", h.Parent)
	require.Equal(t, "first", h.Title)
	require.Equal(t, []string{"hello", "replaced"}, textsOf(t, n, "f"))
	_, err = fork("f1", store.ThreadFork{Run: "r1"})
	require.NoError(t, err)
	require.Equal(t, []string{"hello", large}, textsOf(t, n, "f1"))
	h, err = fork("f2", store.ThreadFork{Message: "m1"})
	require.NoError(t, err)
	require.EqualValues(t, 1, h.Messages)
	_, err = fork("f2", store.ThreadFork{})
	require.ErrorIs(t, err, store.ErrExists)
	_, err = fork("f3", store.ThreadFork{Message: "m2"})
	require.ErrorIs(t, err, store.ErrNoMessage, "the thread no longer has it")
	_, err = fork("f3", store.ThreadFork{Run: "none"})
	require.ErrorIs(t, err, journal.ErrNoRun)
	_, err = n.Thread(ctx, "f3")
	require.ErrorIs(t, err, journal.ErrNoThread)

	require.NoError(t, n.DeleteThread(ctx, "h"))
	require.Equal(t, []string{"hello", large}, textsOf(t, n, "f1"), "a fork has messages of its own")
	h, err = n.Thread(ctx, "f1")
	require.NoError(t, err)
	require.NoError(t, n.Journal().Create(ctx, &journal.Creation{
		ID: "r3", Agent: "a", Owner: "me", LeaseTTL: lease, Log: []byte("{}\n"),
		Thread: &journal.ThreadStart{Thread: "f1", Version: h.Version, Messages: 2},
	}))
	require.Equal(t, []string{"hello", large}, began(t, n, "r3"))
	runs, _, err := n.Runs(ctx, &store.Filter{Thread: "f1"})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, "r3", runs[0].ID)
}

// testThreadForkQuotas checks that forks count toward the tenant's quotas.
func testThreadForkQuotas(t *testing.T, open Opener) {
	ctx := t.Context()
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{Threads: 4, JournalBytes: 3000})
	require.NoError(t, startOn(t, n, "r1", 0))
	endOn(t, s, "r1", nil, 0, threadItem("m1", strings.Repeat("x", 1000)))
	fork := func(id string) error {
		_, err := n.ForkThread(ctx, &store.Thread{ID: id}, &store.ThreadFork{Thread: "h"})
		return err
	}
	require.NoError(t, fork("f1"))
	var full *store.QuotaError
	require.ErrorAs(t, fork("f2"), &full)
	require.Equal(t, "journal_bytes", full.Quota)
	require.NoError(t, n.DeleteThread(ctx, "f1"))
	require.NoError(t, fork("f2"))

	beta, err := s.CreateTenant(ctx, "beta", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	_, err = s.Tenant(beta.ID).ForkThread(ctx, &store.Thread{ID: "x"}, &store.ThreadFork{Thread: "h"})
	require.ErrorIs(t, err, journal.ErrNoThread)
}

// testAdoptedRuns checks that a run without a thread can become the first run of a new thread, but
// only once.
func testAdoptedRuns(t *testing.T, open Opener) {
	ctx := t.Context()
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	require.NoError(
		t,
		n.Journal().Create(ctx, &journal.Creation{ID: "r1", Agent: "a", Owner: "me", LeaseTTL: lease, Log: []byte("{}\n")}),
	)
	adopt := func(id, run string) error {
		_, err := n.AdoptRun(ctx, &store.Thread{ID: id, Agent: "a"}, run,
			&journal.ThreadEnd{Items: []json.RawMessage{threadItem("m1", "hello")}, Title: "hello"})
		return err
	}
	require.ErrorIs(t, adopt("t", "r1"), store.ErrInUse)
	endOn(t, s, "r1", nil, 0)
	require.NoError(t, adopt("t", "r1"))
	require.ErrorIs(t, adopt("t2", "r1"), store.ErrInUse)
	require.ErrorIs(t, adopt("t2", "none"), journal.ErrNoRun)
	require.Equal(t, []string{"hello"}, textsOf(t, n, "t"))
	require.Empty(t, began(t, n, "r1"))
	h, err := n.Thread(ctx, "t")
	require.NoError(t, err)
	version, err := n.RunVersion(ctx, h, "r1")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1}, []int64{version, h.Version})
	require.Equal(t, "hello", h.Title)
	require.NoError(t, n.Journal().Create(ctx, &journal.Creation{
		ID: "r2", Agent: "a", Owner: "me", LeaseTTL: lease, Log: []byte("{}\n"),
		Thread: &journal.ThreadStart{Thread: "t", Version: 1, Messages: 1},
	}))
	require.Equal(t, []string{"hello"}, began(t, n, "r2"))
	_, err = s.CreateTenant(ctx, "beta", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	_, err = s.Tenant("beta").AdoptRun(ctx, &store.Thread{ID: "x"}, "r1", &journal.ThreadEnd{})
	require.ErrorIs(t, err, journal.ErrNoRun)
}

// testThreadRetention checks that old threads of tenants with a retention are deleted, except threads
// with an unfinished run. The audit log must name the actor who set the retention.
func testThreadRetention(t *testing.T, open Opener) {
	ctx := t.Context()
	s, where := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	_, err := s.CreateTenant(ctx, "beta", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	for _, id := range []string{"old", "busy"} {
		for _, tenant := range []string{"acme", "beta"} {
			_, err := s.Tenant(tenant).CreateThread(ctx, &store.Thread{ID: id})
			require.NoError(t, err)
		}
	}
	require.NoError(t, n.Journal().Create(ctx, &journal.Creation{ID: "r1", Agent: "a", Owner: "me", LeaseTTL: lease,
		Log: []byte("{}\n"), Thread: &journal.ThreadStart{Thread: "busy"}}))
	_, err = rawDatabase(
		t,
		where,
	).ExecContext(ctx, `UPDATE threads SET updated_ms = updated_ms - 8 * 86400000 WHERE id <> 'h'`)
	require.NoError(t, err)
	require.NoError(t, n.SetThreadRetention(ctx, 9))
	deleted, err := s.ExpireThreads(ctx)
	require.NoError(t, err)
	require.Zero(t, deleted)
	require.NoError(t, n.SetThreadRetention(ctx, 7))
	deleted, err = s.ExpireThreads(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	_, err = n.Thread(ctx, "old")
	require.ErrorIs(t, err, journal.ErrNoThread)
	for tenant, thread := range map[string]string{"acme": "busy", "beta": "old"} {
		_, err = s.Tenant(tenant).Thread(ctx, thread)
		require.NoError(t, err)
	}
	days, err := n.ThreadRetention(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 7, days)
	log, _, err := n.AuditLog(ctx, &store.AuditFilter{Action: "retention.set"})
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.JSONEq(t, `{"before":9,"after":7}`, string(log[0].Detail))
}
