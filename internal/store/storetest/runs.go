package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

func event(run string, seq int64) []byte {
	b, _ := abijson.Marshal(&abi.Event{Type: abi.EventLog, Seq: seq, Run: run, Text: fmt.Sprint("event ", seq)})
	return append(b, '\n')
}

func testRuns(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	began := time.Now().Add(-time.Minute)
	require.NoError(
		t,
		s.Create(
			ctx,
			&journal.Creation{ID: "r", Tenant: "t", Agent: "a", Parent: "p", Title: "Grüße", Owner: "me", LeaseTTL: lease,
				Modules: []journal.Pin{
					{Entry: "m", Ring: "tenant", Digest: "d"},
				}, Spec: json.RawMessage(`{"x":1}`), Log: []byte("first")},
		),
	)
	require.ErrorIs(t, s.Create(ctx, &journal.Creation{ID: "r"}), journal.ErrExists)

	progress := &journal.Progress{Status: journal.StatusPaused, Step: 3, Usage: abi.Usage{TotalTokens: 7}, Fuel: 9,
		Pending: []abi.Pending{{ID: "int_1", Reason: "May I?"}}}
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 2, Log: []byte("second"),
		First: 1, Last: 2, Events: append(event("r", 1), event("r", 2)...), Progress: progress, LeaseTTL: lease}))
	require.NoError(t, s.Close())

	s = again(t, where)
	stored, err := s.Load(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("first"), []byte("second")}, stored.Log)
	require.Equal(t, *progress, stored.Progress)
	require.Equal(t, "Grüße", stored.Title)
	require.Equal(t, "p", stored.Parent)
	require.Equal(t, []journal.Pin{{Entry: "m", Ring: "tenant", Digest: "d"}}, stored.Modules)
	require.JSONEq(t, `{"x":1}`, string(stored.Spec))
	require.Equal(t, int64(2), stored.Entries)
	require.Equal(t, int64(2), stored.LastSeq)
	require.True(t, stored.Created.After(began) && !stored.Updated.Before(stored.Created))

	_, err = s.Load(ctx, "other")
	require.ErrorIs(t, err, journal.ErrNoRun)
	_, err = s.Events(ctx, "other", 0, 10)
	require.ErrorIs(t, err, journal.ErrNoRun)
	require.NoError(t, s.Delete(ctx, "r"))
	_, err = s.Run(ctx, "r")
	require.ErrorIs(t, err, journal.ErrNoRun)
	require.ErrorIs(t, s.Delete(ctx, "r"), journal.ErrNoRun)
}

// testCommits checks that a log and its events have neither gaps nor repetitions.
func testCommits(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	newRun(t, s, "r")
	require.NoError(t, commit(s, "r", 1, 2, 1))
	require.NoError(t, commit(s, "r", 1, 2, 1), "the response was lost, and the commit is repeated")
	require.ErrorIs(t, commit(s, "r", 1, 4, 2), journal.ErrLost, "an entry is missing")
	require.Error(t, commit(s, "r", 1, 3, 3), "an event is missing")
	require.Error(t, commit(s, "r", 1, 3, 1), "an event is repeated")
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 2, First: 2, Last: 3,
		Events: append(event("r", 2), event("r", 3)...), Lazy: true, LeaseTTL: lease}), "events alone")
	require.NoError(
		t,
		s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 3, Log: []byte("x"), First: 4, Last: 3, LeaseTTL: lease}),
		"a change alone",
	)
	require.ErrorIs(t, commit(s, "none", 1, 2, 1), journal.ErrNoRun)
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "lazy", Log: []byte("x"), LeaseTTL: lease, Lazy: true}))
	written := make(chan struct{}, 9)
	require.NoError(
		t,
		s.Commit(ctx, &journal.Commit{Run: "lazy", Epoch: 1, Entry: 2, Log: []byte("y"), First: 1, LeaseTTL: lease,
			Written: func() { written <- struct{}{} }}),
	)
	require.LessOrEqual(t, len(written), 1, "Written is called once")
	require.NoError(t, commit(s, "lazy", 1, 3, 1))

	for after, want := range map[int64][]int64{0: {1, 2, 3}, 1: {2, 3}, 2: {3}, 3: nil, 9: nil} {
		events, err := s.Events(ctx, "r", after, 10)
		require.NoError(t, err)
		var got []int64
		for _, e := range events {
			got = append(got, e.Seq)
			require.Equal(t, fmt.Sprint("event ", e.Seq), e.Text)
		}
		require.Equal(t, want, got, "after %d", after)
	}
	events, err := s.Events(ctx, "r", 0, 1)
	require.NoError(t, err)
	require.Len(t, events, 1)

	require.NoError(
		t,
		s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 3, First: 4, Last: 4, Events: event("r", 4),
			Progress: &journal.Progress{Status: journal.StatusFinished, FinishReason: abi.RunStop}}),
	)
	require.NoError(
		t,
		s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 3, First: 4, Last: 4, Events: event("r", 4),
			Progress: &journal.Progress{Status: journal.StatusFinished, FinishReason: abi.RunStop}}),
		"the repeated end",
	)
	require.Error(t, commit(s, "r", 1, 4, 5), "nothing follows the end")
	_, err = s.Claim(ctx, &journal.Claim{Run: "r", Epoch: 1, Owner: "you", LeaseTTL: lease, Steal: true})
	require.ErrorIs(t, err, journal.ErrFinished)
}

func testFence(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	newRun(t, s, "r")
	_, err := other.Claim(t.Context(), &journal.Claim{Run: "r", Epoch: 1, Owner: "you", LeaseTTL: lease})
	require.ErrorIs(t, err, journal.ErrBusy)
	stored, err := other.Claim(t.Context(), &journal.Claim{Run: "r", Epoch: 1, Owner: "you", LeaseTTL: lease, Steal: true})
	require.NoError(t, err)
	require.Greater(t, stored.Epoch, int64(1))
	require.Equal(t, "you", stored.Owner)

	require.ErrorIs(t, commit(s, "r", 1, 2, 1), journal.ErrFenced)
	_, err = s.Renew(t.Context(), "r", 1, lease)
	require.ErrorIs(t, err, journal.ErrFenced)
	require.NoError(t, commit(other, "r", stored.Epoch, 2, 1))
	events, err := s.Events(t.Context(), "r", 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 1)
}

// testClaims checks that exactly one of eight concurrent claims of a run succeeds, and that the
// others fail with [journal.ErrBusy].
func testClaims(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	newRun(t, s, "paused")
	require.NoError(
		t,
		s.Commit(t.Context(), &journal.Commit{
			Run:      "paused",
			Epoch:    1,
			Entry:    1,
			First:    1,
			Progress: &journal.Progress{Status: journal.StatusPaused},
		}),
	)
	require.NoError(t,
		s.Create(t.Context(), &journal.Creation{ID: "expired", Owner: "me", LeaseTTL: -time.Second, Log: []byte("x")}))
	for _, id := range []string{"paused", "expired"} {
		var won, busy atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := []store.Store{s, other}[i%2].Claim(t.Context(),
					&journal.Claim{Run: id, Epoch: 1, Owner: fmt.Sprint(i), LeaseTTL: lease})
				if err == nil {
					won.Add(1)
					return
				}
				require.ErrorIs(t, err, journal.ErrBusy)
				busy.Add(1)
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load(), id)
		require.EqualValues(t, 7, busy.Load(), id)
	}
}

func testLists(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	for i := range 5 {
		require.NoError(
			t,
			s.Create(t.Context(), &journal.Creation{
				ID:     fmt.Sprint("r", i),
				Tenant: []string{"", "t"}[i%2],
				Agent:  fmt.Sprint("a", i%3),
				Log:    []byte("x"),
			}),
		)
	}
	ids := func(f *store.Filter) []string {
		runs, _, err := s.Runs(t.Context(), f)
		require.NoError(t, err)
		var out []string
		for _, r := range runs {
			out = append(out, r.ID)
		}
		return out
	}
	require.ElementsMatch(t, []string{"r0", "r2", "r4"}, ids(nil))
	require.ElementsMatch(t, []string{"r1", "r3"}, ids(&store.Filter{Tenant: "t"}))
	require.ElementsMatch(t, []string{"r0"}, ids(&store.Filter{Agent: "a0"}))
	require.Empty(t, ids(&store.Filter{Statuses: []journal.Status{journal.StatusPaused}}))
	require.Len(t, ids(&store.Filter{Page: store.Page{Limit: 2}}), 2)
	require.Empty(t, ids(&store.Filter{Page: store.Page{After: &store.Position{Created: time.Now().Add(-time.Hour)}}}))
}

func testCancel(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	newRun(t, s, "r")
	stop, err := s.Renew(ctx, "r", 1, lease)
	require.NoError(t, err)
	require.False(t, stop)
	require.NoError(t, s.Cancel(ctx, "r"))
	stop, err = s.Renew(ctx, "r", 1, lease)
	require.NoError(t, err)
	require.True(t, stop)
	require.ErrorIs(t, s.Cancel(ctx, "other"), journal.ErrNoRun)

	require.ErrorIs(t, s.Abandon(ctx, "r", "why"), journal.ErrBusy)
	require.ErrorIs(t, s.Delete(ctx, "r"), journal.ErrBusy)
	_, err = s.Renew(ctx, "r", 1, -time.Second)
	require.NoError(t, err)
	require.NoError(t, s.Abandon(ctx, "r", "why"))
	require.ErrorIs(t, commit(s, "r", 1, 2, 1), journal.ErrFenced)
	events, err := s.Events(ctx, "r", 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, abi.EventRunFinished, events[0].Type)
	require.Equal(t, "why", events[0].Reason)
	require.ErrorIs(t, s.Abandon(ctx, "r", "why"), journal.ErrFinished)
	require.ErrorIs(t, s.Cancel(ctx, "r"), journal.ErrFinished)
}

// testMany checks that concurrent commits to many runs store every entry and event, and that
// commits of an old epoch fail with [journal.ErrFenced].
func testMany(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	const runs, commits = 12, 20
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			id := fmt.Sprint("r", i)
			newRun(t, s, id)
			for n := range int64(commits) {
				require.NoError(t, commit(s, id, 1, n+2, n+1))
				require.ErrorIs(t, commit(s, id, 0, n+2, n+1), journal.ErrFenced)
			}
		})
	}
	wg.Wait()
	for i := range runs {
		stored, err := s.Load(t.Context(), fmt.Sprint("r", i))
		require.NoError(t, err)
		require.Len(t, stored.Log, commits+1)
		require.EqualValues(t, commits, stored.LastSeq)
		events, err := s.Events(t.Context(), stored.ID, 0, 1000)
		require.NoError(t, err)
		for n, e := range events {
			require.EqualValues(t, n+1, e.Seq)
		}
	}
}

func testModules(t *testing.T, open Opener) {
	s, where := open(t, nil)
	wasm := []byte("\x00asm of a kind")
	digest, err := s.PutModule(t.Context(), wasm)
	require.NoError(t, err)
	same, err := s.PutModule(t.Context(), wasm)
	require.NoError(t, err)
	require.Equal(t, digest, same)
	got, err := again(t, where).Module(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, wasm, got)
	_, err = s.Module(t.Context(), "00")
	require.ErrorIs(t, err, store.ErrNoModule)
}

// testConcurrentOpens checks that several stores can open the same database concurrently.
func testConcurrentOpens(t *testing.T, open Opener) {
	_, where := open(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), where, nil)
			require.NoError(t, err)
			_, _, err = s.Runs(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
	wg.Wait()
}
