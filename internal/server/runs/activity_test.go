package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
	"github.com/agent-runner/agent-runner/internal/server/sse"
)

// calls reports a call of a hook to the tracer of a run. The call lasts until end is called.
func calls(run *ActiveRun, entry string, hook abi.Hook) (end func(tracing.Outcome)) {
	_, end = Activities().Start(withActivity(context.Background(), run.activity),
		tracing.Operation{Kind: tracing.OperationHook, Entry: entry, Hook: hook})
	return end
}

// frames returns the activities in the text of a stream.
func frames(t *testing.T, text string) (out []api.RunActivity) {
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var a api.RunActivity
			require.NoError(t, json.Unmarshal([]byte(data), &a))
			out = append(out, a)
		}
	}
	return out
}

// TestActivity checks that a watcher receives the running hooks and the used resources of modules,
// but not those of the operator's modules. It must receive at most one frame in each interval.
func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testService(t, hints.None{})
		run := r.Active.Add(
			"run_1",
			"acme",
			[]journal.Pin{{Entry: "mask", Ring: "tenant"}, {Entry: "operator.audit", Ring: "outer"}},
			nil,
		)
		calls(run, "mask", contract.HookBeforeAgent)(tracing.Outcome{})
		time.Sleep(time.Second)
		require.Nil(t, run.activity.feed.frame, "nobody watches")

		w, got := &watcher{runs: r, tenant: "acme", run: "run_1"}, httptest.NewRecorder()
		s := sse.New(got, time.Second)
		more := w.send(s)
		end := calls(run, "mask", contract.HookBeforeModel)
		calls(run, "operator.audit", contract.HookBeforeModel)(tracing.Outcome{})
		<-more
		more = w.send(s)
		for range 1000 {
			calls(run, "mask", contract.HookOnChunk)(tracing.Outcome{Cost: tracing.Cost{Fuel: 2, Memory: 1 << 20}})
		}
		end(tracing.Outcome{Fault: true, Err: errors.New("trap"), Failed: &abi.Error{}})
		<-more
		w.send(s)
		seen := frames(t, got.Body.String())
		require.Len(t, seen, 2)
		require.Len(t, seen[0].Modules, 1)
		require.Equal(t, "before_model", seen[0].Modules[0].Hook)
		require.Equal(t, 1, seen[0].Modules[0].Running)
		last := seen[1].Modules[0]
		require.Equal(
			t,
			api.ModuleActivity{Entry: "mask", Hook: "on_chunk", SinceMS: last.SinceMS, Calls: 1002, Failed: 1, Faults: 1,
				OwnUS: activityInterval.Microseconds(), LastUS: activityInterval.Microseconds(), Fuel: 2000, MemoryBytes: 1 << 20},
			last,
		)
		require.Equal(t, w.number, int64(2))

		w.close()
		calls(run, "mask", contract.HookAfterAgent)(tracing.Outcome{})
		time.Sleep(time.Second)
		require.Equal(t, int64(2), run.activity.feed.number, "the watcher has left")
		other := &watcher{runs: r, tenant: "globex", run: "run_1"}
		other.send(sse.New(httptest.NewRecorder(), time.Second))
		require.Nil(t, other.here, "another tenant")
		other.close()
		for i := range 2 * maxActiveModules {
			calls(run, fmt.Sprint("m", i), contract.HookBeforeModel)(tracing.Outcome{})
		}
		require.Len(t, run.activity.modules, maxActiveModules)
	})
}

// TestActivityElsewhere checks that watchers on other servers receive the activity of a run, and that
// nothing is sent once they have left.
func TestActivityElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hintstest.NewNetwork(time.Millisecond)
		owner, _ := n.Join()
		other, _ := n.Join()
		here, there := testService(t, owner), testService(t, other)
		sent := 0
		_, err := owner.Subscribe(topicActive+"run_1", func([]byte) { sent++ })
		require.NoError(t, err)
		run := here.Active.Add("run_1", "acme", nil, nil)
		synctest.Wait()

		w, got := &watcher{runs: there, tenant: "acme", run: "run_1"}, httptest.NewRecorder()
		s := sse.New(got, time.Second)
		more := w.send(s)
		time.Sleep(10 * time.Millisecond)
		end := calls(run, "mask", contract.HookBeforeModel)
		<-more
		w.send(s)
		require.Equal(t, "mask", frames(t, got.Body.String())[0].Modules[0].Entry)
		w.close()
		time.Sleep(2 * followTTL)
		before := sent
		end(tracing.Outcome{})
		time.Sleep(time.Second)
		require.Equal(t, before, sent)
	})
}
