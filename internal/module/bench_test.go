package module

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

func benchRow(t *testing.T, rows []BenchRow, h abi.Hook) BenchRow {
	t.Helper()
	for _, r := range rows {
		if r.Hook == h {
			return r
		}
	}
	require.Fail(t, "no row", h)
	return BenchRow{}
}

// TestBench checks that every hook of a module is called, and that what they
// took is the same each time, but for the time.
func TestBench(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", Limits{})
	options := &BenchOptions{Config: []byte(do("x")), Runs: 3}
	rows, err := m.Bench(t.Context(), options)
	require.NoError(t, err)
	var hooks []abi.Hook
	for i := range rows {
		hooks = append(hooks, rows[i].Hook)
		if rows[i].Hook == abi.HookCallTool {
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
	require.Equal(t, m.Hooks(), hooks)
	again, err := m.Bench(t.Context(), options)
	require.NoError(t, err)
	for i := range rows {
		rows[i].TimeNS, again[i].TimeNS = 0, 0
	}
	require.Equal(t, rows, again)
}

// TestBenchTrouble checks modules that come to no answer: each hook is called
// all the same.
func TestBenchTrouble(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", Limits{})
	rows, err := m.Bench(t.Context(), &BenchOptions{Config: []byte(do("t")), Runs: 2})
	require.NoError(t, err)
	row := benchRow(t, rows, abi.HookAfterAgent)
	require.Zero(t, row.Calls, "the breaker is open by then")
	row = benchRow(t, rows, abi.HookBeforeAgent)
	require.Equal(t, 2, row.Faulted)
	require.Equal(t, "unreachable executed", row.Problem)

	rows, err = m.Bench(t.Context(), &BenchOptions{Config: []byte(do("f")), Runs: 2})
	require.NoError(t, err)
	row = benchRow(t, rows, abi.HookAfterAgent)
	require.Equal(t, 2, row.Failed)
	require.Equal(t, "not today", row.Problem)
	require.Positive(t, row.Fuel)

	_, err = m.Bench(t.Context(), &BenchOptions{Config: []byte("{")})
	require.ErrorContains(t, err, "configure bench")
	_, err = m.Bench(t.Context(), &BenchOptions{Messages: []abi.Message{}})
	require.ErrorContains(t, err, "at least one message")
	_, err = m.Bench(t.Context(), &BenchOptions{Messages: []abi.Message{{Role: "x"}}})
	require.ErrorContains(t, err, `message 0: unknown role "x"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Bench(ctx, &BenchOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestBenchLazy checks that a module which may read less is shown less.
func TestBenchLazy(t *testing.T) {
	t.Parallel()
	m := load(t, "mirror.wasm", Limits{})
	all, err := m.Bench(t.Context(), &BenchOptions{Runs: 1})
	require.NoError(t, err)
	last, err := m.Bench(t.Context(), &BenchOptions{Runs: 1, Grants: Grants{Read: chain.ReadLast}})
	require.NoError(t, err)
	require.Greater(t, benchRow(t, all, abi.HookBeforeModel).BytesIn, 4*benchRow(t, last, abi.HookBeforeModel).BytesIn)
	one, err := m.Bench(t.Context(), &BenchOptions{Runs: 1, Messages: []abi.Message{abi.User("hello")}})
	require.NoError(t, err)
	require.Greater(t, benchRow(t, all, abi.HookBeforeModel).BytesIn, 4*benchRow(t, one, abi.HookBeforeModel).BytesIn)
}
