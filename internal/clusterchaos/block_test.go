package clusterchaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

const (
	// guardScript is the module of the agent "guarded".
	guardScript = `export default { name: "guard", version: "1.0.0", gate_tool() { return { decision: "allow" }; } };`
	// blockTime is the time after which no run with a blocked module may continue.
	blockTime = time.Second
	// guardedRuns is the number of runs that are in progress when the module is blocked.
	guardedRuns = 6
)

// prepareGuard stores an agent whose module the fault block blocks.
func (w *world) prepareGuard(tool string) error {
	m, err := w.client.PutModule(w.t.Context(), &client.Upload{Name: "guard", Type: "application/typescript",
		Body: strings.NewReader(guardScript), Size: int64(len(guardScript))})
	if err != nil {
		return err
	}
	w.guard = m.Digest
	_, err = w.client.PutAgent(w.t.Context(), "guarded", fmt.Appendf(nil,
		"model: {name: small, retries: 20}\ntools: {mcp: [{url: %q}]}\nmiddlewares: [{module: guard}]\n", tool))
	return err
}

// block blocks the module of runs in progress, while down makes hints fail. After blockTime, none of
// these runs may have another event than its end.
func (w *world) block(ctx context.Context, down func(ctx context.Context)) error {
	ids := make([]string, guardedRuns)
	failed := make([]error, guardedRuns)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			token := fmt.Sprintf("guarded-%d-%d", len(w.others), i)
			run, err := w.client.StartRun(ctx, &api.StartRun{Agent: "guarded", Input: token}, token)
			if failed[i] = err; err == nil {
				ids[i] = run.ID
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	w.others = append(w.others, ids...)
	during, stop := context.WithCancel(ctx)
	defer stop()
	if down != nil {
		go down(during)
		time.Sleep(200 * time.Millisecond)
	}
	if err := w.operator.Block(ctx, w.guard, "the test blocks it"); err != nil {
		return err
	}
	time.Sleep(blockTime)
	last := map[string]int64{}
	for _, id := range ids {
		info, err := w.store.Run(ctx, id)
		if err != nil {
			return err
		}
		last[id] = info.LastSeq
	}
	time.Sleep(2 * time.Second)
	stop()
	ended := 0
	for _, id := range ids {
		for _, e := range w.journal(id) {
			if e.Type != abi.EventRunFinished && e.Seq > last[id] {
				return fmt.Errorf("run %s has the event %s after its module was blocked", id, e.Type)
			}
			if e.Type == abi.EventRunFinished && e.FinishReason != abi.RunStop {
				ended++
			}
		}
	}
	w.t.Logf("%d of %d runs ended because their module was blocked", ended, len(ids))
	if ended == 0 {
		return fmt.Errorf("no run ended because its module was blocked")
	}
	return w.operator.Unblock(ctx, w.guard)
}

// cutHints ends the database connections over which nodes receive hints, again and again until ctx is
// done. With both, it also ends those over which they send hints.
func (w *world) cutHints(ctx context.Context, both bool) {
	which := "query LIKE 'LISTEN%'"
	if both {
		which += " OR query LIKE '%pg_notify%'"
	}
	for ctx.Err() == nil {
		if _, err := w.postgres.Query("platform", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND ("+which+")"); err != nil {
			w.t.Logf("end the connections of hints: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
