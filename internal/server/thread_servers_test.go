package server_test

import (
	"database/sql"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// open makes the model answer this request and all later ones.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.release)
}

// TestServersContinueThreads checks that a thread has one history, without gaps and duplicates, if
// the server of one of its runs fails. The server is killed, or it is stopped until its lease has
// expired and then continues. Another server must take over the run, and then start the run that was
// queued after it.
func TestServersContinueThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, where := testDatabase(t)
	g := &gate{asked: make(chan string, 99)}
	g.shut()
	m, err := openaitest.New(g)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	second := startProcess(f, where, m.URL)
	require.Equal(t, 200, second.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		first := startProcess(f, where, m.URL)
		h := first.CreateThread(f.Acme, api.CreateThread{Agent: "agent", Concurrency: "queue"})
		start := func(p *process, text string) (run api.Run) {
			p.OK("POST", "/v1/runs", f.Acme, api.StartRun{Thread: h.ID, Input: text}, &run)
			return run
		}
		one := start(first, "one")
		<-g.asked
		g.open()
		first.Finished(f.Acme, one.ID)
		g.shut()
		two := start(first, "two")
		<-g.asked
		three := start(second, "three")
		require.Equal(t, "queued", three.Status)
		require.NoError(t, first.cmd.Process.Signal(end))
		<-g.asked // the second server repeats the model call
		g.open()
		require.Equal(t, "stop", second.Finished(f.Acme, two.ID).FinishReason)
		require.Equal(t, "stop", second.Finished(f.Acme, three.ID).FinishReason)
		<-g.asked
		want := []string{}
		for _, text := range []string{"one", "two", "three"} {
			want = append(want, "user: "+text, "assistant: part part part part part whole")
		}
		require.Equal(t, want, second.Said(f.Acme, h.ID))
		if end == syscall.SIGSTOP {
			require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
			four := start(first, "four") // the first server has also received the answer of its run "two"
			<-g.asked
			first.Finished(f.Acme, four.ID)
			require.Equal(t, append(want, "user: four", want[1]), second.Said(f.Acme, h.ID))
		}
		g.shut()
	}
}

// TestRolloutByThread checks that all runs of a thread use the same version of an agent during a
// rollout by thread, and that different threads use different versions.
func TestRolloutByThread(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithCanary(t, 40)
	var r api.Rollout
	f.OK("POST", "/v1/agents/clerk/rollouts", f.Acme, api.StartRollout{Version: 2, By: "thread",
		Rollback: api.RolloutRollback{
			MinRuns: 1000,
		}, Steps: []api.RolloutStep{{Percent: 50, Seconds: 600}, {Percent: 100}}}, &r)
	arms := map[string]int{}
	for range 12 {
		h := f.CreateThread(f.Acme, api.CreateThread{Agent: "clerk"})
		for turn := range 3 {
			run := f.Say(f.Acme, h.ID, fmt.Sprint("turn ", turn))
			require.Equal(t, store.InCanary(r.ID, h.ID, 50), run.Arm == "canary", "turn %d", turn)
			require.Equal(t, map[string]int64{"stable": 1, "canary": 2}[run.Arm], run.Version)
			arms[run.Arm]++
		}
	}
	require.Len(t, arms, 2)
}

// TestReplayOfThreads checks that the runs of a thread are replayed with the messages with which they
// began.
func TestReplayOfThreads(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("one"), scripted.Text("two"), scripted.Text("three"))
	for _, name := range []string{"plain", "equal", "other"} {
		f.Upload(f.Acme, name, servertest.Scripts[name])
	}
	require.Equal(t, 200, f.Apply(f.Acme, "clerk", "model: {name: small}\nmiddlewares: [{module: plain}]\n").Status)
	h := f.CreateThread(f.Acme, api.CreateThread{Agent: "clerk"})
	for range 3 {
		f.Say(f.Acme, h.ID, "hi")
	}
	r, runs := replay(f, f.Services.Replays, api.StartReplay{Module: "equal", Entry: "plain"})
	require.Equal(t, []int64{3, 3, 3}, []int64{r.Total, r.Done, r.Same}, "%+v", runs)
	r, _ = replay(f, f.Services.Replays, api.StartReplay{Module: "other", Entry: "plain"})
	require.EqualValues(t, 3, r.Diverged)
	require.Len(t, f.Said(f.Acme, h.ID), 6, "a replay does not change the thread")
}

// TestThreadStorage checks that the stored bytes of a thread grow by the same amount with each turn.
// It checks the bytes that count against the tenant's quota, and the size of the database.
func TestThreadStorage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	where := storetest.File(t)
	f := servertest.NewCountingAt(t, where)
	db, err := sql.Open("sqlite", "file:"+where+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	defer db.Close()
	h := f.CreateThread(f.Acme, api.CreateThread{Agent: "counter"})
	counted, pages := map[int]int64{}, map[int]int64{}
	for turn := 1; turn <= 100; turn++ {
		f.Say(f.Acme, h.ID, fmt.Sprintf("%-500d", turn))
		counted[turn], err = f.Store.Tenant("acme").JournalBytes(t.Context())
		require.NoError(t, err)
		var n int64
		require.NoError(t, db.QueryRow(`SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`).Scan(&n))
		pages[turn] = n
	}
	require.Len(t, f.Said(f.Acme, h.ID), 200)
	last := (counted[100] - counted[90]) / 10
	t.Logf("the first turn counts %d bytes, turns 91 to 100 count %d each: %.2f times as many; 100 turns count %d",
		counted[1], last, float64(last)/float64(counted[1]), counted[100])
	require.Less(t, float64(last), 1.2*float64(counted[1]))
	early, late := float64(pages[50]-pages[10])/40, float64(pages[100]-pages[60])/40
	t.Logf(
		"the database grows by %.0f bytes for each of the turns 11 to 50, and by %.0f for 61 to 100: %.2f times as many",
		early,
		late,
		late/early,
	)
	require.Less(t, late, 1.3*early)
}
