package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestTakeoverRetriesByTheLocalClock checks that a run whose agent cannot be built is retried for
// an hour by the server's own clock. Neither a jump of the database's clock nor a problem of the
// server, such as overload, ends the run earlier.
func TestTakeoverRetriesByTheLocalClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	began := time.Now()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		func(o *server.Options) {
			o.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
		},
	)
	failure := errors.New("not now")
	f.Services.Runs.Agents = agentSourceFunc(func(context.Context, *store.Tenant, agents.Spec) (*agents.Handle, error) {
		return nil, failure
	})
	require.NoError(
		t,
		f.Store.Create(
			t.Context(),
			&journal.Creation{ID: "run_a", Tenant: "acme", Agent: "greeter", Owner: "gone", LeaseTTL: -2 * runs.MaxTakeoverTime,
				Spec: []byte(
					`{"agent":"greeter","version":1}`,
				), Log: []byte(`{"head":{"id":"run_a","phase":"start"},"fixed":{}}` + "\n")},
		),
	)
	take := func() journal.Status {
		info, err := f.Store.Run(t.Context(), "run_a")
		require.NoError(t, err)
		f.Services.Runs.TakeOverRun(t.Context(), info)
		info, err = f.Store.Run(t.Context(), "run_a")
		require.NoError(t, err)
		return info.Status
	}
	require.Equal(t, journal.StatusRunning, take())
	for _, code := range []string{api.CodeUnavailable, api.CodeInternal, api.CodeQuota} {
		failure = httpapi.NewProblem(code, "not now")
		require.Equal(t, journal.StatusRunning, take(), code)
	}
	ahead.Store(int64(runs.MaxTakeoverTime))
	require.Equal(t, journal.StatusRunning, take())
	ahead.Store(int64(runs.MaxTakeoverTime + time.Second))
	require.Equal(t, journal.StatusFinished, take())
}

// TestPanicsStayInTheLog checks that a panic of the server while it builds an agent is in the
// operator's log with its stack, and that the tenant sees neither the stack nor the value.
func TestPanicsStayInTheLog(t *testing.T) {
	t.Parallel()
	const value = "index out of range"
	var log servertest.Buffer
	var ahead atomic.Int64
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		servertest.WithLog(&log),
		func(o *server.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		},
	)
	f.Services.Runs.Agents = agentSourceFunc(
		func(ctx context.Context, _ *store.Tenant, _ agents.Spec) (*agents.Handle, error) {
			_, err := refcache.New[string](
				refcache.Options[int]{},
			).Acquire(ctx, "", func(context.Context) (int, error) { panic(value) })
			return nil, &agents.NotReadyError{What: "agent greeter", Err: err}
		},
	)
	requireLogged := func(line string) {
		for l := range strings.Lines(log.String()) {
			if strings.Contains(l, line) && strings.Contains(l, value) && strings.Contains(l, "TestPanicsStayInTheLog") {
				return
			}
		}
		require.Fail(t, "the log has no stack", "%s: %s", line, log.String())
	}
	r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"})
	require.Equal(t, 500, r.Status)
	require.NotContains(t, string(r.Body), value)
	requireLogged("msg=request")

	for _, id := range []string{"run_a", "run_b"} {
		require.NoError(t, f.Store.Create(t.Context(), &journal.Creation{
			ID: id, Tenant: "acme", Agent: "greeter", Owner: "gone", LeaseTTL: -time.Second, Spec: []byte(`{"agent":"greeter","version":1}`),
			Log: []byte(`{"head":{"id":"` + id + `","phase":"start"},"fixed":{}}` + "\n"),
		}))
	}
	info, err := f.Store.Run(t.Context(), "run_a")
	require.NoError(t, err)
	f.Services.Runs.TakeOverRun(t.Context(), info)
	requireLogged("take over run")
	ahead.Store(int64(2 * runs.MaxTakeoverTime))
	f.Services.Runs.TakeOverRun(t.Context(), info)
	f.OK("POST", "/v1/runs/run_b/cancel", f.Acme, nil, nil)
	requireLogged("canceled run")
	for _, id := range []string{"run_a", "run_b"} {
		ended := f.Finished(f.Acme, id)
		require.NotEmpty(t, ended.Error)
		require.NotContains(t, ended.Error, value)
	}
}

// TestLeasesUseTheDatabaseClock checks that leases use the database's clock: a run of another
// server is canceled there, even if this server's clock is wrong by days.
func TestLeasesUseTheDatabaseClock(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		func(o *server.Options) {
			o.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
		},
	)
	require.NoError(
		t,
		f.Store.Create(
			t.Context(),
			&journal.Creation{ID: "run_a", Tenant: "acme", Agent: "greeter", Owner: "another server", LeaseTTL: time.Hour,
				Spec: []byte(
					`{"agent":"greeter","version":1}`,
				), Log: []byte(`{"head":{"id":"run_a","phase":"start"},"fixed":{}}` + "\n")},
		),
	)
	f.OK("POST", "/v1/runs/run_a/cancel", f.Acme, nil, nil)
	info, err := f.Store.Run(t.Context(), "run_a")
	require.NoError(t, err)
	require.True(t, info.Cancel)
	require.Equal(t, int64(1), info.Epoch, "no other server has claimed it")
	now, err := f.Store.Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Hour)
}
