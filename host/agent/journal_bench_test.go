package agent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
)

// benchSteps is how many steps a run of the benchmark has.
const benchSteps = 20

// A busyModel calls a tool in each step but the last, and streams its answers.
type busyModel struct{}

func (busyModel) Generate(_ context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	n := len(req.Messages)
	res := &abi.Response{Message: abi.Assistant("a sentence of some words that says what comes next"), FinishReason: abi.FinishStop, Usage: &abi.Usage{TotalTokens: 10}}
	if n < 2*(benchSteps-1) {
		res.FinishReason = abi.FinishToolCalls
		res.Message.ToolCalls = []abi.ToolCall{{ID: fmt.Sprint("c", n), Type: "function", Function: abi.FunctionCall{Name: "t", Arguments: `{"n":1}`}}}
	}
	if sink != nil {
		for _, c := range res.Message.Chunks() {
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

// BenchmarkJournal measures a step with one tool call that is not idempotent,
// with and without a journal. The model and the tool take no time.
func BenchmarkJournal(b *testing.B) {
	run := func(b *testing.B, j agent.Journal) {
		o := &agent.Options{Model: busyModel{}, MaxSteps: 2 * benchSteps, Tools: []tool.Tool{
			tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
				return abi.TextResult("a result of some words"), nil
			})}}
		if j != nil {
			o.Journal = &agent.JournalOptions{Journal: j}
		}
		a, err := agent.New(o)
		require.NoError(b, err)
		for b.Loop() {
			var last error
			for _, err := range a.Run(b.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
				last = err
			}
			require.NoError(b, last)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchSteps), "us/step")
	}
	open := func(b *testing.B, where string) store.Store {
		s, err := store.Open(b.Context(), where, nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		return s
	}
	b.Run("none", func(b *testing.B) { run(b, nil) })
	b.Run("SQLite", func(b *testing.B) { run(b, open(b, filepath.Join(b.TempDir(), "runs.db"))) })
	b.Run("PostgreSQL", func(b *testing.B) { run(b, open(b, postgrestest.Start(b).Create(b, "bench"))) })
}
