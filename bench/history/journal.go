package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// journaled measures the steps of a run after the first, with and without a journal in SQLite. It
// also counts the commits of a step and their bytes.
func journaled(ctx context.Context, h *host.Host, _ *host.Module) error {
	return withStore(ctx, func(s store.Store) error {
		fmt.Println(
			"| messages | a step, us | of these the processors | a step that is kept, us | of these the processors | commits | KB written | against 10 messages |\n|---|---|---|---|---|---|---|---|",
		)
		var few float64
		for _, n := range []int{10, 1000, 20_000} {
			talk := conversation(n)
			plain, err := keptRuns(ctx, h, nil, talk)
			if err != nil {
				return err
			}
			w := &writes{Store: s}
			kept, err := keptRuns(ctx, h, w, talk)
			if err != nil {
				return fmt.Errorf("%d messages: %w", n, err)
			}
			if few == 0 {
				few = kept.Used
			}
			commits, bytes := w.ofStep()
			fmt.Printf(
				"| %d | %.0f | %.0f | %.0f | %.0f | %.1f | %.2f | %.2f |\n",
				n,
				plain.Wall,
				plain.Used,
				kept.Wall,
				kept.Used,
				commits,
				bytes/1e3,
				kept.Used/few,
			)
		}
		return nil
	})
}

// keptRuns returns the median time of a step after the first. If w is not nil, it is the journal of
// the runs.
func keptRuns(ctx context.Context, h *host.Host, w *writes, conversation []abi.Message) (stats.Span, error) {
	s := &script{steps: 40}
	o := &host.AgentOptions{Model: s, Tools: []tool.Tool{echo()}, MaxSteps: s.steps}
	if w != nil {
		w.script = s
		o.Journal = &journal.Options{Journal: w}
	}
	a, err := h.NewAgent(ctx, o)
	if err != nil {
		return stats.Span{}, err
	}
	defer a.Close()
	_, later, err := s.medians(
		5,
		func() iter.Seq2[abi.Event, error] { return a.Run(ctx, host.Input{Messages: conversation}) },
	)
	return later, err
}

// withStore calls do with a new store in a temporary folder, and then closes the store and removes
// the folder.
func withStore(ctx context.Context, do func(store.Store) error) error {
	dir, err := os.MkdirTemp("", "agent-runner-bench-")
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, filepath.Join(dir, "runs.db"), nil)
	if err == nil {
		err = errors.Join(do(s), s.Close())
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// writes is a store that records the commits of a script's last run.
type writes struct {
	store.Store
	script *script

	mu  sync.Mutex
	all []write
}

type write struct {
	at    time.Time
	bytes int
}

// Create implements [journal.Journal].
func (w *writes) Create(ctx context.Context, run *journal.Creation) error {
	w.mu.Lock()
	w.all = nil
	w.mu.Unlock()
	return w.Store.Create(ctx, run)
}

// Commit implements [journal.Journal].
func (w *writes) Commit(ctx context.Context, c *journal.Commit) error {
	w.mu.Lock()
	w.all = append(w.all, write{time.Now(), len(c.Log) + len(c.Events)})
	w.mu.Unlock()
	return w.Store.Commit(ctx, c)
}

// ofStep returns the average number of commits in a step after the first, and the average number of
// bytes that they write.
func (w *writes) ofStep() (commits, bytes float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.script.asked
	steps := float64(len(asked) - 1)
	for _, one := range w.all {
		if one.at.After(asked[0].At) && !one.at.After(asked[len(asked)-1].At) {
			commits, bytes = commits+1/steps, bytes+float64(one.bytes)/steps
		}
	}
	return commits, bytes
}
