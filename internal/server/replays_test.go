package server

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
	"github.com/agent-runner/agent-runner/internal/server/replays"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// sources are modules that a test of replays uses.
var sources = map[string]string{
	"plain": `export default { name: "plain", before_model() { return {}; } };`,
	"equal": `export default { name: "equal", before_model() { let n = 0; for (let i = 0; i < 10; i++) n += i; return {}; } };`,
	"deny":  `export default { name: "deny", gate_tool() { return { decision: "deny" }; } };`,
	"other": `export default { name: "other", before_model() { return { request: { params: { temperature: 0.5 } } }; } };`,
	"loops": `export default { name: "loops", before_model() { for (;;) {} } };`,
}

// replayFixture returns a server with n runs of the agent clerk, and the sources as modules of acme.
func replayFixture(t *testing.T, n int) (f *fixture, ids []string) {
	t.Helper()
	f = newFixture(t)
	return f, f.replayed(n)
}

// replayed uploads modules, stores the agent clerk, and returns the ids of n finished runs of it.
func (f *fixture) replayed(n int) (ids []string) {
	t := f.t
	t.Helper()
	var script []scripted.Reply
	for i := range n {
		script = append(script, scripted.Calls(abi.NewToolCall(fmt.Sprint("c", i), "calculator", `{"expression":"6*7"}`)),
			scripted.Text("It is 42."))
	}
	f.model(script...)
	for name, source := range sources {
		f.upload(f.acme, name, source)
	}
	r := f.apply(f.acme, "clerk", "model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: plain}]\n")
	require.Equal(t, 200, r.status, "%s", r.body)
	for range n {
		var run api.Run
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "clerk", Input: "what is 6*7?"}, &run)
		done := f.finished(f.acme, run.ID)
		require.Equal(t, "It is 42.", done.Output, "%+v", done)
		ids = append(ids, run.ID)
	}
	return ids
}

// replay starts a replay and executes it.
func (f *fixture) replay(s *replays.Service, q api.StartReplay) (*api.Replay, []api.ReplayedRun) {
	f.t.Helper()
	var r api.Replay
	f.ok("POST", "/v1/agents/clerk/replays", f.acme, q, &r)
	require.Equal(f.t, "queued", r.Status)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Watch(ctx) }()
	require.Eventually(f.t, func() bool {
		f.ok("GET", "/v1/replays/"+r.ID, f.acme, nil, &r)
		return !r.Ended.IsZero()
	}, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
	var out struct{ Runs []api.ReplayedRun }
	f.ok("GET", "/v1/replays/"+r.ID+"/runs", f.acme, nil, &out)
	return &r, out.Runs
}

// TestReplays checks the outcomes of replays with other modules and versions.
func TestReplays(t *testing.T) {
	t.Parallel()
	f, ids := replayFixture(t, 2)
	q := func(module string) api.StartReplay { return api.StartReplay{Module: module, Entry: "plain"} }
	r, runs := f.replay(f.server.replays, q("plain"))
	require.Equal(
		t,
		[]any{"finished", int64(2), int64(2), int64(2)},
		[]any{r.Status, r.Total, r.Done, r.Same},
		"%+v",
		runs,
	)
	require.Equal(t, ids[1], runs[0].Run, "the newest is first")
	require.Empty(t, runs[0].Changes)

	r, runs = f.replay(f.server.replays, q("equal"))
	require.Equal(t, int64(2), r.Same)
	require.Greater(t, runs[0].After.Fuel, runs[0].Before.Fuel)
	require.Equal(t, "before_model", runs[0].Hooks[0].Hook)

	r, runs = f.replay(f.server.replays, q("other"))
	require.Equal(t, int64(2), r.Diverged, "%+v", runs)
	require.Equal(t, "request", runs[0].Changes[0].Kind)
	require.Contains(t, runs[0].Changes[0].After, "temperature")

	_, runs = f.replay(f.server.replays, q("deny"))
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

	require.Equal(t, 200, f.apply(f.acme, "clerk", "model: {name: small-2}\ntools: {builtin: [calculator]}\n").status)
	r, runs = f.replay(f.server.replays, api.StartReplay{Version: 2, Runs: api.ReplayFilter{Version: 1, Limit: 1}})
	require.Equal(t, []int64{1, 1}, []int64{r.Total, r.Diverged})
	require.Contains(t, runs[0].Changes[0].Before+runs[0].Changes[0].After, "small-2")
	require.Equal(t, int64(1), runs[0].Version)

	// An entry that is named like its module changes its name with the module's version.
	pinned := "model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: plain@%s}]\n"
	require.Equal(t, 200, f.send("PUT", "/v1/modules?name=plain&version=1.5", f.acme, []byte(sources["plain"]),
		"Content-Type", "application/javascript").status)
	for _, version := range []string{"1", "1.5"} {
		require.Equal(t, 200, f.apply(f.acme, "clerk", fmt.Sprintf(pinned, version)).status)
	}
	r, runs = f.replay(f.server.replays, api.StartReplay{Version: 4, Runs: api.ReplayFilter{Limit: 1}})
	require.Equal(t, int64(1), r.Same, "%+v", runs)
	r, runs = f.replay(f.server.replays, api.StartReplay{Module: "equal", Entry: "plain@1.5"})
	require.Equal(t, int64(2), r.Same, "%+v", runs)
	require.Equal(t, "plain", runs[0].Hooks[0].Entry)

	var list struct{ Replays []api.Replay }
	f.ok("GET", "/v1/agents/clerk/replays", f.acme, nil, &list)
	require.Len(t, list.Replays, 7)
	f.ok("GET", "/v1/replays?limit=3", f.acme, nil, &list)
	require.Len(t, list.Replays, 3)
	f.ok("GET", "/v1/replays", f.beta, nil, &list)
	require.Empty(t, list.Replays)
	var log struct{ Records []api.AuditRecord }
	f.ok("GET", "/v1/audit?action=replay.start", f.acme, nil, &log)
	require.Len(t, log.Records, 7)
	f.send("POST", "/v1/agents/clerk/replays", f.acme, api.StartReplay{}).problem(t, 422)
	f.send("POST", "/v1/agents/clerk/replays", f.acme, api.StartReplay{Version: 9}).problem(t, 404)
	f.send("POST", "/v1/agents/clerk/replays", f.beta, q("plain")).problem(t, 404)
	f.send("POST", "/v1/agents/clerk/replays", f.acme, api.StartReplay{Version: 1, Runs: api.ReplayFilter{Version: 7}}).
		problem(t, 422)
	f.ok("DELETE", "/v1/replays/"+r.ID, f.acme, nil, nil)
	f.send("GET", "/v1/replays/"+r.ID, f.acme, nil).problem(t, 404)
}

// TestReplaysHideRings checks that the results show neither the operator's modules nor the text that
// these modules add to requests.
func TestReplaysHideRings(t *testing.T) {
	t.Parallel()
	f, _ := replayFixture(t, 0)
	f.upload(f.operator, "other", sources["other"])
	require.Equal(t, 200, f.apply(f.operator, "rings", "model: {name: none}\nrings: {inner: [{module: other}]}\n").status)
	f.model(scripted.Calls(abi.NewToolCall("c", "calculator", `{"expression":"6*7"}`)), scripted.Text("It is 42."))
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "clerk", Input: "what is 6*7?"}, &run)
	f.finished(f.acme, run.ID)
	_, runs := f.replay(f.server.replays, api.StartReplay{Module: "deny", Entry: "plain"})
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
	require.NoError(t, f.store.Create(ctx, &journal.Creation{ID: "run_large", Tenant: "acme", Agent: "clerk", Owner: "me",
		LeaseTTL: time.Hour, Spec: json.RawMessage(`{"agent":"clerk","version":1}`), Log: []byte("x")}))
	for i := range int64(16) { // 64 MiB
		require.NoError(t, f.store.Commit(ctx, &journal.Commit{Run: "run_large", Epoch: 1, Entry: i + 2, First: 1, Last: 0,
			Log: make([]byte, 4<<20), LeaseTTL: time.Hour}))
	}
	require.NoError(t, f.store.Create(ctx, &journal.Creation{ID: "run_beta", Tenant: "beta", Agent: "clerk", Owner: "me",
		LeaseTTL: time.Hour, Spec: json.RawMessage(`{"agent":"clerk","version":1}`), Log: []byte("x")}))
	q := api.StartReplay{Module: "equal", Entry: "plain",
		Runs: api.ReplayFilter{IDs: []string{ids[0], "run_large", "run_beta", "run_none"}}}
	r, runs := f.replay(f.server.replays, q)
	require.Equal(t, []int64{4, 4, 1, 3}, []int64{r.Total, r.Done, r.Same, r.Skipped}, "%+v", runs)
	reasons := map[string]string{}
	for _, run := range runs {
		reasons[run.Run] = run.Reason
	}
	require.Contains(t, reasons["run_large"], "runs of at most 16777216 bytes are replayed")
	require.Equal(t, "the run was deleted", reasons["run_beta"], "that of another tenant does not exist")
	require.Equal(t, reasons["run_beta"], reasons["run_none"])

	q.Entry = "none"
	_, runs = f.replay(f.server.replays, q)
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
	_, runs := f.replay(f.server.replays, q)
	require.Equal(t, "failed", runs[0].Outcome, "%+v", runs)
	require.Positive(t, runs[0].After.Faults)
	started := 0
	for range 1000 {
		r := f.send("POST", "/v1/agents/clerk/replays", f.acme, q)
		if r.status == 202 {
			started++
			continue
		}
		require.Contains(t, r.problem(t, 429).Detail, "replays")
		break
	}
	require.Equal(t, 10, started)
	var list struct{ Replays []api.Replay }
	f.ok("GET", "/v1/agents/clerk/replays", f.acme, nil, &list)
	for _, r := range list.Replays {
		if r.Status == "queued" {
			var canceled api.Replay
			f.ok("POST", "/v1/replays/"+r.ID+"/cancel", f.acme, nil, &canceled)
			require.Equal(t, "canceled", canceled.Status)
		}
	}
}

// TestReplayHidesTheDatabase checks that the reason for which a run was not replayed has no text of the database.
func TestReplayHidesTheDatabase(t *testing.T) {
	t.Parallel()
	var s *moduleStore
	f := newFixture(t, func(o *Options) {
		s = &moduleStore{Store: o.Store}
		o.Store = s
	})
	f.replayed(1)
	f.server.pool.CloseIdle()
	f.server.modules.CloseIdle()
	s.err = &database.Error{
		Kind:     database.Unavailable,
		Database: "db.internal:5432",
		Err:      errors.New("no route to 10.0.0.7"),
	}
	_, runs := f.replay(f.server.replays, api.StartReplay{Module: "equal", Entry: "plain"})
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
	f.ok("POST", "/v1/agents/clerk/replays", f.acme, q, &r)
	for range 2 { // two servers that end while they replay the first run
		claimed, err := f.store.ClaimReplay(ctx, 50*time.Millisecond)
		require.NoError(t, err)
		require.NotNil(t, claimed)
		run, _, err := f.store.NextReplayRun(ctx, claimed, 50*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, ids[1], run.Run)
		again, err := f.store.ClaimReplay(ctx, time.Minute)
		require.NoError(t, err)
		require.Nil(t, again, "it is in progress")
		time.Sleep(60 * time.Millisecond)
	}
	watch, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f.server.replays.Watch(watch) }()
	require.Eventually(t, func() bool {
		f.ok("GET", "/v1/replays/"+r.ID, f.acme, nil, &r)
		return r.Status == "finished"
	}, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
	require.Equal(t, []int64{1, 1}, []int64{r.Failed, r.Same})
	var out struct{ Runs []api.ReplayedRun }
	f.ok("GET", "/v1/replays/"+r.ID+"/runs?outcome=failed", f.acme, nil, &out)
	require.True(t, strings.HasPrefix(out.Runs[0].Reason, "2 servers ended"), out.Runs[0].Reason)
}

var _ store.Replays = store.Store(nil)
