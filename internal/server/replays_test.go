package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/replays"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// replayFixture returns a server with n runs of the agent clerk, and the sources as modules of acme.
func replayFixture(t *testing.T, n int) (f *servertest.Fixture, ids []string) {
	t.Helper()
	f = servertest.New(t)
	return f, replayed(f, n)
}

// replayed uploads modules, stores the agent clerk, and returns the ids of n finished runs of it.
func replayed(f *servertest.Fixture, n int) (ids []string) {
	t := f.T
	t.Helper()
	var script []scripted.Reply
	for i := range n {
		script = append(script, scripted.Calls(abi.NewToolCall(fmt.Sprint("c", i), "calculator", `{"expression":"6*7"}`)),
			scripted.Text("It is 42."))
	}
	f.SetReplies(script...)
	for name, source := range servertest.Scripts {
		f.Upload(f.Acme, name, source)
	}
	r := f.Apply(f.Acme, "clerk", "model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: plain}]\n")
	require.Equal(t, 200, r.Status, "%s", r.Body)
	for range n {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: "what is 6*7?"}, &run)
		done := f.Finished(f.Acme, run.ID)
		require.Equal(t, "It is 42.", done.Output, "%+v", done)
		ids = append(ids, run.ID)
	}
	return ids
}

// replay starts a replay and executes it.
func replay(f *servertest.Fixture, s *replays.Service, q api.StartReplay) (*api.Replay, []api.ReplayedRun) {
	f.T.Helper()
	var r api.Replay
	f.OK("POST", "/v1/agents/clerk/replays", f.Acme, q, &r)
	require.Equal(f.T, "queued", r.Status)
	ctx, cancel := context.WithCancel(f.T.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Watch(ctx) }()
	require.Eventually(f.T, func() bool {
		f.OK("GET", "/v1/replays/"+r.ID, f.Acme, nil, &r)
		return !r.Ended.IsZero()
	}, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
	var out struct{ Runs []api.ReplayedRun }
	f.OK("GET", "/v1/replays/"+r.ID+"/runs", f.Acme, nil, &out)
	return &r, out.Runs
}

// TestReplays checks the outcomes of replays with other modules and versions.
func TestReplays(t *testing.T) {
	t.Parallel()
	f, ids := replayFixture(t, 2)
	q := func(module string) api.StartReplay { return api.StartReplay{Module: module, Entry: "plain"} }
	r, runs := replay(f, f.Services.Replays, q("plain"))
	require.Equal(
		t,
		[]any{"finished", int64(2), int64(2), int64(2)},
		[]any{r.Status, r.Total, r.Done, r.Same},
		"%+v",
		runs,
	)
	require.Equal(t, ids[1], runs[0].Run, "the newest is first")
	require.Empty(t, runs[0].Changes)

	r, runs = replay(f, f.Services.Replays, q("equal"))
	require.Equal(t, int64(2), r.Same)
	require.Greater(t, runs[0].After.Fuel, runs[0].Before.Fuel)
	require.Equal(t, "before_model", runs[0].Hooks[0].Hook)

	r, runs = replay(f, f.Services.Replays, q("other"))
	require.Equal(t, int64(2), r.Diverged, "%+v", runs)
	require.Equal(t, "request", runs[0].Changes[0].Kind)
	require.Contains(t, runs[0].Changes[0].After, "temperature")

	_, runs = replay(f, f.Services.Replays, q("deny"))
	require.Equal(t, "diverged", runs[0].Outcome, "the model gets another result")
	require.Equal(t, int64(1), runs[0].After.Denials)
	var decisions []string
	for _, c := range runs[0].Changes {
		if c.Kind == "decision" {
			decisions = append(decisions, c.After)
		}
	}
	require.Equal(t, []string{"plain decides deny for calculator"}, decisions)
	gate := runs[0].Hooks[slices.IndexFunc(runs[0].Hooks, func(h api.ReplayHook) bool { return h.Hook == "gate_tool" })]
	require.Equal(t, map[string]int64{"deny": 1}, gate.After.Decisions)
	require.Equal(t, int64(1), gate.ChangedAnswers)

	require.Equal(t, 200, f.Apply(f.Acme, "clerk", "model: {name: small-2}\ntools: {builtin: [calculator]}\n").Status)
	r, runs = replay(f, f.Services.Replays, api.StartReplay{Version: 2, Runs: api.ReplayFilter{Version: 1, Limit: 1}})
	require.Equal(t, []int64{1, 1}, []int64{r.Total, r.Diverged})
	require.Contains(t, runs[0].Changes[0].Before+runs[0].Changes[0].After, "small-2")
	require.Equal(t, int64(1), runs[0].Version)

	// An entry that is named like its module changes its name with the module's version.
	pinned := "model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: plain@%s}]\n"
	require.Equal(t, 200, f.Send("PUT", "/v1/modules?name=plain&version=1.5", f.Acme, []byte(servertest.Scripts["plain"]),
		"Content-Type", "application/javascript").Status)
	for _, version := range []string{"1", "1.5"} {
		require.Equal(t, 200, f.Apply(f.Acme, "clerk", fmt.Sprintf(pinned, version)).Status)
	}
	r, runs = replay(f, f.Services.Replays, api.StartReplay{Version: 4, Runs: api.ReplayFilter{Limit: 1}})
	require.Equal(t, int64(1), r.Same, "%+v", runs)
	r, runs = replay(f, f.Services.Replays, api.StartReplay{Module: "equal", Entry: "plain@1.5"})
	require.Equal(t, int64(2), r.Same, "%+v", runs)
	require.Equal(t, "plain", runs[0].Hooks[0].Entry)

	var list struct{ Replays []api.Replay }
	f.OK("GET", "/v1/agents/clerk/replays", f.Acme, nil, &list)
	require.Len(t, list.Replays, 7)
	f.OK("GET", "/v1/replays?limit=3", f.Acme, nil, &list)
	require.Len(t, list.Replays, 3)
	f.OK("GET", "/v1/replays", f.Beta, nil, &list)
	require.Empty(t, list.Replays)
	var log struct{ Records []api.AuditRecord }
	f.OK("GET", "/v1/audit?action=replay.start", f.Acme, nil, &log)
	require.Len(t, log.Records, 7)
	f.Send("POST", "/v1/agents/clerk/replays", f.Acme, api.StartReplay{}).Problem(t, 422)
	f.Send("POST", "/v1/agents/clerk/replays", f.Acme, api.StartReplay{Version: 9}).Problem(t, 404)
	f.Send("POST", "/v1/agents/clerk/replays", f.Beta, q("plain")).Problem(t, 404)
	f.Send("POST", "/v1/agents/clerk/replays", f.Acme, api.StartReplay{Version: 1, Runs: api.ReplayFilter{Version: 7}}).
		Problem(t, 422)
	f.OK("DELETE", "/v1/replays/"+r.ID, f.Acme, nil, nil)
	f.Send("GET", "/v1/replays/"+r.ID, f.Acme, nil).Problem(t, 404)
}

// TestReplaysHideRings checks that the results show neither the operator's modules nor the text that
// these modules add to requests.
func TestReplaysHideRings(t *testing.T) {
	t.Parallel()
	f, _ := replayFixture(t, 0)
	f.Upload(f.Operator, "other", servertest.Scripts["other"])
	require.Equal(t, 200, f.Apply(f.Operator, "rings", "model: {name: none}\nrings: {inner: [{module: other}]}\n").Status)
	f.SetReplies(scripted.Calls(abi.NewToolCall("c", "calculator", `{"expression":"6*7"}`)), scripted.Text("It is 42."))
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: "what is 6*7?"}, &run)
	f.Finished(f.Acme, run.ID)
	_, runs := replay(f, f.Services.Replays, api.StartReplay{Module: "deny", Entry: "plain"})
	require.Equal(t, "diverged", runs[0].Outcome, "%+v", runs)
	text, err := json.Marshal(runs)
	require.NoError(t, err)
	for _, hidden := range []string{"temperature", "operator.", "other"} {
		require.NotContains(t, string(text), hidden)
	}
	require.Contains(t, string(text), "model small gets 3 messages")
}

// TestReplaysSkipRuns checks that runs that cannot be replayed are counted, with the reason.
func TestReplaysSkipRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, ids := replayFixture(t, 1)
	ctx := t.Context()
	require.NoError(t, f.Store.Create(ctx, &journal.Creation{ID: "run_large", Tenant: "acme", Agent: "clerk", Owner: "me",
		LeaseTTL: time.Hour, Spec: json.RawMessage(`{"agent":"clerk","version":1}`), Log: []byte("x")}))
	for i := range int64(16) { // 64 MiB
		require.NoError(t, f.Store.Commit(ctx, &journal.Commit{Run: "run_large", Epoch: 1, Entry: i + 2, First: 1, Last: 0,
			Log: make([]byte, 4<<20), LeaseTTL: time.Hour}))
	}
	require.NoError(t, f.Store.Create(ctx, &journal.Creation{ID: "run_beta", Tenant: "beta", Agent: "clerk", Owner: "me",
		LeaseTTL: time.Hour, Spec: json.RawMessage(`{"agent":"clerk","version":1}`), Log: []byte("x")}))
	q := api.StartReplay{Module: "equal", Entry: "plain",
		Runs: api.ReplayFilter{IDs: []string{ids[0], "run_large", "run_beta", "run_none"}}}
	r, runs := replay(f, f.Services.Replays, q)
	require.Equal(t, []int64{4, 4, 1, 3}, []int64{r.Total, r.Done, r.Same, r.Skipped}, "%+v", runs)
	reasons := map[string]string{}
	for _, run := range runs {
		reasons[run.Run] = run.Reason
	}
	require.Contains(t, reasons["run_large"], "runs of at most 16777216 bytes are replayed")
	require.Equal(t, "the run was deleted", reasons["run_beta"], "that of another tenant does not exist")
	require.Equal(t, reasons["run_beta"], reasons["run_none"])

	q.Entry = "none"
	_, runs = replay(f, f.Services.Replays, q)
	for _, run := range runs {
		if run.Run == ids[0] {
			require.Equal(t, []string{"skipped", `its agent had no entry "none"`}, []string{run.Outcome, run.Reason})
		}
	}
}

// TestReplayAttacks checks that a module that loops, and a tenant that starts many replays, are bounded.
func TestReplayAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, _ := replayFixture(t, 1)
	q := api.StartReplay{Module: "loops", Entry: "plain"}
	_, runs := replay(f, f.Services.Replays, q)
	require.Equal(t, "failed", runs[0].Outcome, "%+v", runs)
	require.Positive(t, runs[0].After.Faults)
	started := 0
	for range 1000 {
		r := f.Send("POST", "/v1/agents/clerk/replays", f.Acme, q)
		if r.Status == 202 {
			started++
			continue
		}
		require.Contains(t, r.Problem(t, 429).Detail, "replays")
		break
	}
	require.Equal(t, 10, started)
	var list struct{ Replays []api.Replay }
	f.OK("GET", "/v1/agents/clerk/replays", f.Acme, nil, &list)
	for _, r := range list.Replays {
		if r.Status == "queued" {
			var canceled api.Replay
			f.OK("POST", "/v1/replays/"+r.ID+"/cancel", f.Acme, nil, &canceled)
			require.Equal(t, "canceled", canceled.Status)
		}
	}
}

// TestReplayHidesTheDatabase checks that the reason for which a run was not replayed has no text of the database.
func TestReplayHidesTheDatabase(t *testing.T) {
	t.Parallel()
	var s *servertest.FailingStore
	f := servertest.New(t, func(o *server.Options) {
		s = &servertest.FailingStore{Store: o.Store}
		o.Store = s
	})
	replayed(f, 1)
	f.Services.Pool.CloseIdle()
	f.Services.Modules.CloseIdle()
	s.Err = &database.Error{
		Kind:     database.Unavailable,
		Database: "db.internal:5432",
		Err:      errors.New("no route to 10.0.0.7"),
	}
	_, runs := replay(f, f.Services.Replays, api.StartReplay{Module: "equal", Entry: "plain"})
	require.Len(t, runs, 1)
	require.Equal(t, "the database failed; start the replay again", runs[0].Reason)
}

// TestReplayContinues checks that another server continues a replay whose server ended, and that a run that
// ends two servers gets the outcome failed.
func TestReplayContinues(t *testing.T) {
	t.Parallel()
	f, ids := replayFixture(t, 2)
	ctx := t.Context()
	q := api.StartReplay{Module: "equal", Entry: "plain"}
	var r api.Replay
	f.OK("POST", "/v1/agents/clerk/replays", f.Acme, q, &r)
	for range 2 { // two servers that end while they replay the first run
		claimed, err := f.Store.ClaimReplay(ctx, 50*time.Millisecond)
		require.NoError(t, err)
		require.NotNil(t, claimed)
		run, _, err := f.Store.NextReplayRun(ctx, claimed, 50*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, ids[1], run.Run)
		again, err := f.Store.ClaimReplay(ctx, time.Minute)
		require.NoError(t, err)
		require.Nil(t, again, "it is in progress")
		time.Sleep(60 * time.Millisecond)
	}
	watch, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f.Services.Replays.Watch(watch) }()
	require.Eventually(t, func() bool {
		f.OK("GET", "/v1/replays/"+r.ID, f.Acme, nil, &r)
		return r.Status == "finished"
	}, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
	require.Equal(t, []int64{1, 1}, []int64{r.Failed, r.Same})
	var out struct{ Runs []api.ReplayedRun }
	f.OK("GET", "/v1/replays/"+r.ID+"/runs?outcome=failed", f.Acme, nil, &out)
	require.True(t, strings.HasPrefix(out.Runs[0].Reason, "2 servers ended"), out.Runs[0].Reason)
}

var _ store.Replays = store.Store(nil)
