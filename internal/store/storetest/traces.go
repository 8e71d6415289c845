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
			s.Create(t.Context(), &journal.Creation{ID: run, Tenant: "a", Agent: "a", Lease: lease, Log: []byte(`{}`)}))
	}
	require.ErrorIs(t, b.AddTrace(t.Context(), "first", []byte("not its own")), journal.ErrNoRun)
	require.ErrorIs(t, a.AddTrace(t.Context(), "third", []byte("of no run")), journal.ErrNoRun)
	var want [][]byte
	for i := range 103 {
		body := fmt.Appendf(nil, "timeline %d", i)
		require.NoError(t, a.AddTrace(t.Context(), "first", body))
		if i < 100 {
			want = append(want, body)
		}
	}
	require.NoError(t, a.AddTrace(t.Context(), "second", []byte("its own")))

	got, err := a.Traces(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, want, got, "the first 100 in their order")
	got, err = a.Traces(t.Context(), "second")
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("its own")}, got)
	_, err = b.Traces(t.Context(), "first")
	require.ErrorIs(t, err, journal.ErrNoRun)
}
