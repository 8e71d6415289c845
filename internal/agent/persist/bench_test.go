package persist_test

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// benchSteps is the number of steps of a run in the benchmark.
const benchSteps = 20

// A busyModel calls a tool in each step but the last, and streams its answers.
type busyModel struct {
	history     int       // number of messages at the start of the run
	steps       int       // number of steps; the default is benchSteps
	first, last time.Time // times of the first and the last call
}

func (m *busyModel) Generate(_ context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	if m.last = time.Now(); m.first.IsZero() {
		m.first = m.last
	}
	n := len(req.Messages) - m.history
	res := &abi.Response{
		Message:      abi.Assistant("a sentence of some words that says what comes next"),
		FinishReason: abi.FinishStop,
		Usage:        &abi.Usage{TotalTokens: 10},
	}
	if n < 2*(cmp.Or(m.steps, benchSteps)-1) {
		res.FinishReason = abi.FinishToolCalls
		res.Message.ToolCalls = []abi.ToolCall{
			{ID: fmt.Sprint("c", n), Type: "function", Function: abi.FunctionCall{Name: "t", Arguments: `{"n":1}`}},
		}
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
	owner := ""
	run := func(b *testing.B, j journal.Journal) {
		o := &agent.Options{Model: &busyModel{history: 1}, MaxSteps: 2 * benchSteps, Tools: []tool.Tool{
			tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
				return abi.TextResult("a result of some words"), nil
			})}}
		if j != nil {
			o.Journal = &journal.Options{Journal: j, Tenant: owner}
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
	tenant := func(b *testing.B, s store.Store) journal.Journal {
		_, err := s.CreateTenant(
			b.Context(),
			"acme",
			"",
			store.TenantQuota{RunsPerDay: 1 << 40, JournalBytes: 1 << 50, JournalBytesPerDay: 1 << 50},
			nil,
		)
		require.NoError(b, err)
		owner = "acme"
		b.Cleanup(func() { owner = "" })
		return s.Tenant("acme").Journal()
	}
	b.Run("tenant of SQLite", func(b *testing.B) { run(b, tenant(b, open(b, filepath.Join(b.TempDir(), "runs.db")))) })
	b.Run(
		"tenant of PostgreSQL",
		func(b *testing.B) { run(b, tenant(b, open(b, postgrestest.Start(b).Create(b, "tenant")))) },
	)
	b.Run("SQLite", func(b *testing.B) { run(b, open(b, filepath.Join(b.TempDir(), "runs.db"))) })
	b.Run("PostgreSQL", func(b *testing.B) { run(b, open(b, postgrestest.Start(b).Create(b, "bench"))) })
}

// historyOf returns a conversation of n messages. The last message is the user's.
func historyOf(n int) []abi.Message {
	out := make([]abi.Message, n)
	for i := range out {
		if out[i] = abi.User("what the user says, in a sentence of some words"); i%2 == 1 {
			out[i] = abi.Assistant("what the model answers, in a sentence of some words")
		}
	}
	out[n-1] = abi.User("hi")
	return out
}

func busyAgent(tb testing.TB, m *busyModel, j journal.Journal) *agent.Agent {
	o := &agent.Options{Model: m, MaxSteps: 2 * cmp.Or(m.steps, benchSteps), Tools: []tool.Tool{
		tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
			return abi.TextResult("a result of some words"), nil
		})}}
	if j != nil {
		o.Journal = &journal.Options{Journal: j}
	}
	a, err := agent.New(o)
	require.NoError(tb, err)
	return a
}

// BenchmarkJournalOfHistory measures a step of runs with inputs of different lengths, from the
// first model call to the last.
func BenchmarkJournalOfHistory(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		history := historyOf(n)
		run := func(b *testing.B, j journal.Journal) {
			var took time.Duration
			for b.Loop() {
				m := &busyModel{history: n}
				var last error
				for _, err := range busyAgent(b, m, j).Run(b.Context(), agent.Input{Messages: history}) {
					last = err
				}
				require.NoError(b, last)
				took += m.last.Sub(m.first)
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N*(benchSteps-1)), "us/step")
		}
		b.Run(fmt.Sprint("none/", n), func(b *testing.B) { run(b, nil) })
		b.Run(fmt.Sprint("SQLite/", n), func(b *testing.B) {
			s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), nil)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			run(b, s)
		})
	}
}

// A countingJournal counts the bytes of the log and of the events that are committed in each step.
type countingJournal struct {
	journal.Journal
	steps []int
}

func (c *countingJournal) Commit(ctx context.Context, commit *journal.Commit) error {
	if p := commit.Progress; p != nil {
		for len(c.steps) <= p.Step {
			c.steps = append(c.steps, 0)
		}
		c.steps[p.Step] += len(commit.Log) + len(commit.Events)
	}
	return c.Journal.Commit(ctx, commit)
}

// TestAStepWritesWhatIsNew checks that the number of bytes that a step writes does not grow with
// the length of the conversation or with the number of earlier steps.
func TestAStepWritesWhatIsNew(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	const steps = 150
	written := func(history int) []int {
		c := &countingJournal{Journal: openStore(t)}
		var last error
		for _, err := range busyAgent(t, &busyModel{history: history, steps: steps},
			c).Run(t.Context(), agent.Input{Messages: historyOf(history)}) {
			last = err
		}
		require.NoError(t, last)
		require.Len(t, c.steps, steps+1)
		return c.steps
	}
	sum := func(steps []int) (n int) {
		for _, s := range steps {
			n += s
		}
		return n
	}
	few, many := written(10), written(5000)
	require.InEpsilon(t, sum(few[10:30]), sum(few[120:140]), 0.05, "a later step")
	require.InEpsilon(t, sum(few[10:140]), sum(many[10:140]), 0.05, "a longer conversation")
}

// BenchmarkErase measures a step in which a middleware changes the tool's result and the model's
// answer, both with and without Options.Originals.
func BenchmarkErase(b *testing.B) {
	for name, originals := range map[string]bool{"erased": false, "originals": true} {
		b.Run(name, func(b *testing.B) {
			s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), nil)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			c, err := chain.New(nativeEntry("hides", hides()))
			require.NoError(b, err)
			a, err := agent.New(&agent.Options{
				Model: &busyModel{history: 1}, Chain: c, MaxSteps: 2 * benchSteps,
				Tools: []tool.Tool{tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
					return abi.TextResult("a result of some words" + secret), nil
				})},
				Journal: &journal.Options{Journal: s, Originals: originals},
			})
			require.NoError(b, err)
			for b.Loop() {
				for _, err := range a.Run(b.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchSteps), "us/step")
		})
	}
}
