package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		os.Exit(child.Main(javascript.Job())) //nolint:forbidigo // this is a main
	}
	goleak.VerifyTestMain(m)
}

func loadModule(t *testing.T, name string) *module.Module {
	t.Helper()
	l, err := module.NewLoader(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
	m, err := l.Load(t.Context(), filepath.Join("../../../testdata/modules", name), policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func benchRow(t *testing.T, rows []Row, h abi.Hook) Row {
	t.Helper()
	for _, r := range rows {
		if r.Hook == h {
			return r
		}
	}
	require.Fail(t, "no row", h)
	return Row{}
}

// TestBench checks that Run calls every hook of a module that adds no tools, except call_tool, and
// that everything but the time is the same when Run is repeated.
func TestBench(t *testing.T) {
	t.Parallel()
	m := loadModule(t, "puppet.wasm")
	options := &Options{Config: []byte(`{"do":"x"}`), Runs: 3}
	rows, err := Run(t.Context(), m, options)
	require.NoError(t, err)
	var hooks []abi.Hook
	for i := range rows {
		hooks = append(hooks, rows[i].Hook)
		if rows[i].Hook == contract.HookCallTool {
			require.Zero(t, rows[i].Calls, "the puppet adds no tools")
			continue
		}
		require.Zero(t, rows[i].Calls%3)
		require.Positive(t, rows[i].Calls, rows[i].Hook)
		require.Positive(t, rows[i].Fuel)
		require.Positive(t, rows[i].TimeNS)
		require.Positive(t, rows[i].BytesIn)
		require.Positive(t, rows[i].HostCalls)
		require.Zero(t, rows[i].Pages)
	}
	require.Equal(t, m.Info().Hooks, hooks)
	again, err := Run(t.Context(), m, options)
	require.NoError(t, err)
	for i := range rows {
		rows[i].TimeNS, again[i].TimeNS = 0, 0
	}
	require.Equal(t, rows, again)
}

// TestBenchTrouble checks that the last hook is called after earlier hooks failed, but is not
// called after repeated faults opened the breaker. It also checks the errors of Run.
func TestBenchTrouble(t *testing.T) {
	t.Parallel()
	m := loadModule(t, "puppet.wasm")
	rows, err := Run(t.Context(), m, &Options{Config: []byte(`{"do":"t"}`), Runs: 2})
	require.NoError(t, err)
	row := benchRow(t, rows, contract.HookAfterAgent)
	require.Zero(t, row.Calls, "the breaker is open by then")
	row = benchRow(t, rows, contract.HookBeforeAgent)
	require.Equal(t, 2, row.Faulted)
	require.Equal(t, "unreachable executed", row.Problem)

	rows, err = Run(t.Context(), m, &Options{Config: []byte(`{"do":"f"}`), Runs: 2})
	require.NoError(t, err)
	row = benchRow(t, rows, contract.HookAfterAgent)
	require.Equal(t, 2, row.Failed)
	require.Equal(t, "not today", row.Problem)
	require.Positive(t, row.Fuel)

	_, err = Run(t.Context(), m, &Options{Config: []byte("{")})
	require.ErrorContains(t, err, "configure bench")
	_, err = Run(t.Context(), m, &Options{Messages: []abi.Message{}})
	require.ErrorContains(t, err, "at least one message")
	_, err = Run(t.Context(), m, &Options{Messages: []abi.Message{{Role: "x"}}})
	require.ErrorContains(t, err, `message 0: unknown role "x"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, m, &Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestBenchLazy checks that a module receives smaller inputs if it may read only the last message,
// or if the conversation is short.
func TestBenchLazy(t *testing.T) {
	t.Parallel()
	m := loadModule(t, "mirror.wasm")
	all, err := Run(t.Context(), m, &Options{Runs: 1})
	require.NoError(t, err)
	last, err := Run(t.Context(), m, &Options{Runs: 1, Grants: policy.Grants{Read: hook.ReadLast}})
	require.NoError(t, err)
	require.Greater(t, benchRow(t, all, contract.HookBeforeModel).BytesIn,
		4*benchRow(t, last, contract.HookBeforeModel).BytesIn)
	one, err := Run(t.Context(), m, &Options{Runs: 1, Messages: []abi.Message{abi.User("hello")}})
	require.NoError(t, err)
	require.Greater(t, benchRow(t, all, contract.HookBeforeModel).BytesIn,
		4*benchRow(t, one, contract.HookBeforeModel).BytesIn)
}
