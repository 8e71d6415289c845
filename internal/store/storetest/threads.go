package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// threadTenant returns the new tenant acme with a thread "h".
func threadTenant(t *testing.T, s store.Store, q store.TenantQuota) *store.Tenant {
	t.Helper()
	_, err := s.CreateTenant(t.Context(), "acme", "", q, nil)
	require.NoError(t, err)
	n := s.Tenant("acme")
	_, err = n.CreateThread(t.Context(), &store.Thread{ID: "h", Agent: "a"})
	require.NoError(t, err)
	return n
}

// startOn starts a run in the thread "h" that begins with the first base messages of the thread.
func startOn(t *testing.T, n *store.Tenant, run string, base int) error {
	t.Helper()
	h, err := n.Thread(t.Context(), "h")
	require.NoError(t, err)
	return n.Journal().Create(t.Context(), &journal.Creation{
		ID: run, Agent: "a", Title: "title of " + run, Owner: "me", LeaseTTL: lease, Log: []byte("{}\n"),
		Thread: &journal.ThreadStart{Thread: "h", Version: h.Version, Messages: base},
	})
}

func threadItem(id, text string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"id": id, "role": "user", "content": text})
	return b
}

// endOn ends a run with one commit, which replaces the messages of its thread from index from on with
// items.
func endOn(t *testing.T, s store.Store, run string, rewrite *journal.Rewrite, from int, items ...json.RawMessage) {
	t.Helper()
	require.NoError(t, s.Commit(t.Context(), &journal.Commit{
		Run: run, Epoch: 1, Entry: 2, Log: []byte("{}\n"), First: 1, Last: 1, Events: event(run, 1), LeaseTTL: lease,
		Progress: &journal.Progress{Status: journal.StatusFinished, FinishReason: "stop"}, Rewrite: rewrite,
		Thread: &journal.ThreadEnd{From: from, Items: items, Title: "first"},
	}))
}

// texts returns the texts of the thread "h".
func texts(t *testing.T, n *store.Tenant) (out []string) {
	t.Helper()
	h, err := n.Thread(t.Context(), "h")
	require.NoError(t, err)
	list, _, err := n.ThreadMessages(
		t.Context(),
		"h",
		&store.MessagePage{Version: h.Version, Limit: 100, MaxBytes: 1 << 20},
	)
	require.NoError(t, err)
	require.Len(t, list, int(h.Messages))
	for i, m := range list {
		require.EqualValues(t, i, m.Position)
		out = append(out, contentOf(t, m.Body))
	}
	return out
}

func contentOf(t *testing.T, message json.RawMessage) string {
	t.Helper()
	var m struct{ Content string }
	require.NoError(t, json.Unmarshal(message, &m))
	return m.Content
}

// began returns the texts with which a run began in its thread.
func began(t *testing.T, n *store.Tenant, run string) (out []string) {
	t.Helper()
	stored, err := n.LoadRun(t.Context(), run)
	require.NoError(t, err)
	var line struct {
		Messages struct{ Items []json.RawMessage }
	}
	first, _, _ := strings.Cut(string(stored.Log[0]), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	for _, m := range line.Messages.Items {
		out = append(out, contentOf(t, m))
	}
	return out
}

// testThreads checks that the runs of a thread begin with its messages, and add their own messages to
// it.
func testThreads(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	require.ErrorIs(t, n.Journal().Create(t.Context(), &journal.Creation{ID: "x",
		Thread: &journal.ThreadStart{Thread: "none"}}), journal.ErrNoThread)

	require.NoError(t, startOn(t, n, "r1", 0))
	var busy *journal.ThreadBusyError
	require.ErrorAs(t, startOn(t, n, "r2", 0), &busy)
	require.Equal(t, &journal.ThreadBusyError{Thread: "h", Run: "r1", Status: journal.StatusRunning}, busy)
	h, err := n.Thread(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, "title of r1", h.Title)
	require.Equal(t, "r1", h.Run)
	require.ErrorIs(t, n.DeleteThread(t.Context(), "h"), store.ErrInUse)

	large := strings.Repeat("x", 300<<10)
	endOn(t, s, "r1", nil, 0, threadItem("m1", "hello"), threadItem("m2", large))
	require.NoError(t, startOn(t, n, "r2", 2))
	require.Equal(t, []string{"hello", large}, began(t, n, "r2"))
	endOn(t, s, "r2", nil, 2, threadItem("m3", "again"))
	require.Equal(t, []string{"hello", large, "again"}, texts(t, n))

	require.NoError(t, startOn(t, n, "r3", 3))
	endOn(t, s, "r3", nil, 0, threadItem("s", "summary"), threadItem("m3", "again"), threadItem("m4", "more"))
	require.Equal(t, []string{"summary", "again", "more"}, texts(t, n))
	require.Equal(t, []string{"hello", large}, began(t, n, "r2"), "earlier runs are complete")
	require.Equal(t, []string{"hello", large, "again"}, began(t, n, "r3"))

	stale := &journal.Creation{ID: "r4", Thread: &journal.ThreadStart{Thread: "h", Version: 2, Messages: 3}}
	require.ErrorIs(t, n.Journal().Create(t.Context(), stale), journal.ErrThreadChanged)

	before, err := n.JournalBytes(t.Context())
	require.NoError(t, err)
	require.NoError(t, n.DeleteThread(t.Context(), "h"))
	after, err := n.JournalBytes(t.Context())
	require.NoError(t, err)
	require.Greater(t, before, int64(len(large)))
	require.Zero(t, after)
	_, err = n.Thread(t.Context(), "h")
	require.ErrorIs(t, err, journal.ErrNoThread)
	_, err = n.Run(t.Context(), "r1")
	require.ErrorIs(t, err, journal.ErrNoRun)
	require.ErrorIs(t, n.DeleteThread(t.Context(), "h"), journal.ErrNoThread)
}

// testThreadErasure checks that a thread does not have the text that a run erased, neither in its
// messages nor in those with which its runs began.
func testThreadErasure(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	require.NoError(t, startOn(t, n, "r1", 0))
	endOn(t, s, "r1", nil, 0, threadItem("m1", "ann@example.com"), threadItem("m2", "remove me"), threadItem("m3", "kept"))
	require.NoError(t, startOn(t, n, "r2", 3))
	empty := ""
	endOn(t, s, "r2", &journal.Rewrite{First: 2, Title: &empty, Phases: map[int64]bool{0: true},
		Message: func(string) json.RawMessage { return nil }},
		0, threadItem("m1", "[email]"), threadItem("m3", "kept"), threadItem("m4", "new"))
	require.Equal(t, []string{"[email]", "kept", "new"}, texts(t, n))
	require.Equal(t, []string{"[email]", "", "kept"}, began(t, n, "r2"))
}

// testThreadBusy checks that exactly one of several concurrent runs begins in a thread.
func testThreadBusy(t *testing.T, open Opener) {
	s, where := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	other := again(t, where).Tenant("acme")
	for round := range 5 {
		var wait sync.WaitGroup
		started := make(chan string, 8)
		for i := range 8 {
			on := n
			if i%2 == 1 {
				on = other
			}
			run := fmt.Sprintf("r%d.%d", round, i)
			wait.Go(func() {
				h, err := on.Thread(t.Context(), "h")
				if err == nil {
					err = on.Journal().Create(t.Context(), &journal.Creation{ID: run, LeaseTTL: lease, Log: []byte("{}"),
						Thread: &journal.ThreadStart{Thread: "h", Version: h.Version, Messages: int(h.Messages)}})
				}
				if err == nil {
					started <- run
				}
			})
		}
		wait.Wait()
		require.Len(t, started, 1)
		endOn(t, s, <-started, nil, round, threadItem(fmt.Sprint("m", round), fmt.Sprint(round)))
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, texts(t, n))
}

// testThreadFields checks the fields of threads, their filters and pages.
func testThreadFields(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{Threads: 6})
	for i := range 5 {
		_, err := n.CreateThread(t.Context(), &store.Thread{
			ID: fmt.Sprint("t", i), Agent: []string{"a", "b"}[i%2], Subject: []string{"", "ann"}[i%2], Title: "given",
			Titled: true, Metadata: map[string]string{"n": fmt.Sprint(i), "same": "yes"},
		})
		require.NoError(t, err)
	}
	_, err := n.CreateThread(t.Context(), &store.Thread{ID: "t0"})
	require.ErrorIs(t, err, store.ErrExists)
	var full *store.QuotaError
	_, err = n.CreateThread(t.Context(), &store.Thread{ID: "t6"})
	require.ErrorAs(t, err, &full)
	require.Equal(t, "threads", full.Quota)

	for name, tc := range map[string]struct {
		filter store.ThreadFilter
		want   []string
	}{
		"all":                {store.ThreadFilter{}, []string{"t4", "t3", "t2", "t1", "t0", "h"}},
		"agent":              {store.ThreadFilter{Agent: "b"}, []string{"t3", "t1"}},
		"subject":            {store.ThreadFilter{Subject: "ann"}, []string{"t3", "t1"}},
		"subject and agent":  {store.ThreadFilter{Subject: "ann", Agent: "a"}, nil},
		"metadata":           {store.ThreadFilter{Name: "n", Value: "3"}, []string{"t3"}},
		"metadata and agent": {store.ThreadFilter{Name: "same", Value: "yes", Agent: "a"}, []string{"t4", "t2", "t0"}},
		"everything": {
			store.ThreadFilter{Name: "same", Value: "yes", Agent: "b", Subject: "ann"},
			[]string{"t3", "t1"},
		},
		"no such value": {store.ThreadFilter{Name: "n", Value: "9"}, nil},
	} {
		var got []string
		tc.filter.Limit = 2
		for {
			page, next, err := n.Threads(t.Context(), &tc.filter)
			require.NoError(t, err)
			for _, h := range page {
				got = append(got, h.ID)
			}
			if next == nil {
				break
			}
			tc.filter.After = next
		}
		require.ElementsMatch(t, tc.want, got, name)
	}

	hostile := "\u202eüber \U0001f600"
	h, err := n.UpdateThread(t.Context(), "t0", &store.ThreadUpdate{Title: &hostile,
		Metadata: map[string]string{"same": "yes", "other": "new"}})
	require.NoError(t, err)
	require.Equal(t, hostile, h.Title)
	require.Equal(t, map[string]string{"same": "yes", "other": "new"}, h.Metadata)
	_, err = s.Tenant("beta").Thread(t.Context(), "t0")
	require.ErrorIs(t, err, journal.ErrNoThread)
}

// testThreadsPruned checks that threads are deleted with their runs, and messages that no run needs.
func testThreadsPruned(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{})
	require.NoError(t, startOn(t, n, "r1", 0))
	endOn(t, s, "r1", nil, 0, threadItem("m1", "one"))
	require.NoError(t, startOn(t, n, "r2", 1))
	_, err := s.Prune(t.Context(), store.PruneOptions{OlderThan: -time.Second})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts(t, n), "a thread with an unfinished run stays")
	require.Equal(t, []string{"one"}, began(t, n, "r2"))
	endOn(t, s, "r2", nil, 0, threadItem("m2", "two"))
	_, err = s.Prune(t.Context(), store.PruneOptions{OlderThan: -time.Second})
	require.NoError(t, err)
	_, err = n.Thread(t.Context(), "h")
	require.ErrorIs(t, err, journal.ErrNoThread)
	bytes, err := n.JournalBytes(t.Context())
	require.NoError(t, err)
	require.Zero(t, bytes)
}

// testThreadQueue checks the order and the bounds of a thread's queue, and which process starts the
// queued runs.
func testThreadQueue(t *testing.T, open Opener) {
	s, where := open(t, nil)
	n := threadTenant(t, s, store.TenantQuota{QueuedRuns: 3})
	enqueue := func(run string) error {
		return n.EnqueueRun(t.Context(), &journal.Creation{ID: run, Agent: "a", Log: []byte("request of " + run),
			Thread: &journal.ThreadStart{Thread: "h"}})
	}
	require.NoError(t, startOn(t, n, "r1", 0))
	for _, run := range []string{"q1", "q2", "q3"} {
		require.NoError(t, enqueue(run))
	}
	var full *store.QuotaError
	require.ErrorAs(t, enqueue("q4"), &full)
	startable := func() (ids []string) {
		list, err := s.StartableRuns(t.Context(), 10)
		require.NoError(t, err)
		for _, info := range list {
			ids = append(ids, info.ID)
		}
		return ids
	}
	require.Empty(t, startable(), "a run is in progress")
	ahead, err := n.QueuedBefore(t.Context(), "h", "q2")
	require.NoError(t, err)
	require.Len(t, ahead, 2)
	_, err = s.Claim(t.Context(), &journal.Claim{Run: "q1", Epoch: 1, Owner: "me", LeaseTTL: lease})
	require.Error(t, err, "a queued run is not resumed")
	endOn(t, s, "r1", nil, 0, threadItem("m1", "one"))

	var busy *journal.ThreadBusyError
	require.ErrorAs(t, startOn(t, n, "r2", 1), &busy)
	require.Equal(t, journal.StatusQueued, busy.Status, "no run overtakes the queue")
	require.ErrorAs(t, startOn(t, n, "q2", 1), &busy)
	require.Equal(t, []string{"q1"}, startable())
	for i, store := range []store.Store{again(t, where), s} {
		claimed, err := store.Tenant("acme").ClaimQueued(t.Context(), "q1", "me", lease)
		require.NoError(t, err)
		require.Equal(t, i == 0, claimed)
	}
	require.Empty(t, startable())
	log, err := n.QueuedRun(t.Context(), "q1")
	require.NoError(t, err)
	require.Equal(t, "request of q1", string(log))
	before, err := n.Run(t.Context(), "q1")
	require.NoError(t, err)
	require.NoError(t, startOn(t, n, "q1", 1))
	now, err := n.Run(t.Context(), "q1")
	require.NoError(t, err)
	require.Equal(t, before.Created, now.Created)
	require.Equal(t, journal.StatusRunning, now.Status)
	endOn(t, s, "q1", nil, 1, threadItem("m2", "two"))

	require.NoError(t, n.AbandonRun(t.Context(), "q2", "canceled", nil))
	require.Equal(t, []string{"q3"}, startable())
	require.ErrorAs(t, startOn(t, n, "q2", 2), &busy, "a canceled run does not start")
	require.NoError(t, startOn(t, n, "q3", 2))
	require.Equal(t, []string{"one", "two"}, began(t, n, "q3"))
}
