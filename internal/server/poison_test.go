package server_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// A poison is a model that kills the server with a run whose input is "poison". The other runs wait
// for the first kill.
type poison struct {
	last int // the number of kills after which it answers; 0 for never

	mu     sync.Mutex
	server *process
	kills  int
	first  chan struct{} // closed after the first kill
}

// Generate implements [model.Model].
func (p *poison) Generate(ctx context.Context, req *model.Request, _ func(abi.Chunk) error) (*abi.Response, error) {
	if req.Messages[len(req.Messages)-1].Content.String() == "poison" {
		time.Sleep(200 * time.Millisecond) // the response to the request that starts the run must arrive
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last == 0 || p.kills < p.last {
			if p.server.cmd.Process.Signal(syscall.SIGKILL) == nil {
				if p.kills++; p.kills == 1 {
					close(p.first)
				}
			}
			return nil, errors.New("the server is dead")
		}
	}
	select {
	case <-p.first:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return &abi.Response{
		Message:      abi.Message{Role: abi.RoleAssistant, Content: abi.Text("done")},
		FinishReason: abi.FinishStop,
	}, nil
}

// TestPoisonRun checks that a single server which restarts after each crash quarantines the run that
// kills it, after the run has killed it twice alone. The other runs end, and new ones are accepted.
func TestPoisonRun(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for name, where := range map[string]string{
		"sqlite": storetest.File(t), "postgres": postgrestest.Start(t).Create(t, "platform"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := databaseAt(t, where)
			p := &poison{first: make(chan struct{})}
			m, err := openaitest.New(p)
			require.NoError(t, err)
			t.Cleanup(m.Close)
			ended := p.start(f, where, m.URL)
			require.Equal(t, 200, p.server.Apply(f.Acme, "agent", "model: {name: small, retries: 0}\n").Status)
			ids := map[string]string{} // of runs, by input
			for _, input := range []string{"a", "b", "c", "poison"} {
				var run api.Run
				p.server.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: input}, &run)
				ids[input] = run.ID
			}
			status := func(input string) journal.Status { return statusOf(f, ids[input]) }
			require.Eventually(t, func() bool {
				select {
				case <-ended:
					ended = p.start(f, where, m.URL)
				default:
				}
				return status("poison") == journal.StatusQuarantined && status("a") == journal.StatusFinished &&
					status("b") == journal.StatusFinished && status("c") == journal.StatusFinished
			}, 2*time.Minute, 50*time.Millisecond)
			require.LessOrEqual(t, p.kills, 4, "with the others, beside the others, alone twice")
			list, _, err := f.Store.Quarantined(t.Context(), store.Page{Limit: 9})
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Contains(
				t,
				list[0].Reason,
				"4 servers ended while they executed the run, 2 of them while they executed nothing else",
			)
			require.Eventually(t, func() bool {
				return p.server.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "new"}).Status < 300
			}, time.Minute, 100*time.Millisecond, "new runs are accepted again")

			require.NoError(t, f.Store.Release(t.Context(), list[0].Run))
			crashes, err := f.Store.RunCrashes(t.Context(), list[0].Run, "none")
			require.NoError(t, err)
			require.Empty(t, crashes, "a release forgets them")
		})
	}
}

// TestKillDuringTrial checks that a run ends with an answer if its server is killed three times, the third
// time while it executes nothing else.
func TestKillDuringTrial(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	where := storetest.File(t)
	f := databaseAt(t, where)
	p := &poison{first: make(chan struct{}), last: 3}
	m, err := openaitest.New(p)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	ended := p.start(f, where, m.URL)
	require.Equal(t, 200, p.server.Apply(f.Acme, "agent", "model: {name: small, retries: 0}\n").Status)
	var run api.Run
	p.server.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "poison"}, &run)
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			ended = p.start(f, where, m.URL)
		default:
		}
		return statusOf(f, run.ID) == journal.StatusFinished
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, 3, p.kills)
	p.server.OK("GET", "/v1/runs/"+run.ID, f.Acme, nil, &run)
	require.Empty(t, run.Error)
}

// startProcess starts a server that the poison kills. ended is closed when its process has ended.
func (p *poison) start(f *servertest.Fixture, where, url string) (ended chan struct{}) {
	server := startProcess(f, where, url)
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = server.cmd.Process.Wait() // the fixture calls cmd.Wait
	}()
	return ended
}
