package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

func testTraces(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	a := newTenant(t, s, "a", store.TenantQuota{})
	b := newTenant(t, s, "b", store.TenantQuota{})
	for _, run := range []string{"first", "second"} {
		require.NoError(t,
			s.Create(t.Context(), &journal.Creation{ID: run, Tenant: "a", Agent: "a", LeaseTTL: lease, Log: []byte(`{}`)}))
	}
	require.ErrorIs(t, b.AddTrace(t.Context(), "first", []byte("not its own"), 1), journal.ErrNoRun)
	require.ErrorIs(t, a.AddTrace(t.Context(), "third", []byte("of no run"), 1), journal.ErrNoRun)
	for i := range 103 {
		require.NoError(t, a.AddTrace(t.Context(), "first", fmt.Appendf(nil, "timeline %d", i), int64(i)))
	}
	for _, size := range []int64{10 << 20, 7 << 20, 6 << 20, 1} {
		require.NoError(t, a.AddTrace(t.Context(), "second", []byte("its own"), size))
	}

	info, sizes, err := a.Traces(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, "first", info.ID)
	require.Len(t, sizes, 100)
	for i, size := range sizes {
		require.EqualValues(t, i, size, "in their order")
		body, err := a.Trace(t.Context(), "first", i)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("timeline ", i), string(body))
		body, err = b.Trace(t.Context(), "first", i)
		require.NoError(t, err)
		require.Nil(t, body)
	}
	_, sizes, err = a.Traces(t.Context(), "second")
	require.NoError(t, err)
	require.Equal(t, []int64{10 << 20, 6 << 20}, sizes, "16 MiB")
	_, _, err = b.Traces(t.Context(), "first")
	require.ErrorIs(t, err, journal.ErrNoRun)
}
