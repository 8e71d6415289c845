package hook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &breaker{nowFunc: func() time.Time { return now }}
	for range breakAfter - 1 {
		require.NoError(t, b.allow())
		require.Empty(t, b.done(true))
	}
	require.Empty(t, b.done(false), "a success in between begins the count anew")
	for i := range breakAfter {
		require.NoError(t, b.allow())
		change := b.done(true)
		require.Equal(t, i == breakAfter-1, change != "")
	}
	require.ErrorContains(t, b.allow(), "switched off after 5 consecutive faults; it is tried again in 1s")

	now = now.Add(breakFirst)
	require.NoError(t, b.allow(), "one call may try")
	require.Error(t, b.allow(), "one, not two")
	require.Contains(t, b.done(true), "switched off for 2s")
	require.Error(t, b.allow())

	now = now.Add(2 * time.Second)
	require.NoError(t, b.allow())
	b.release() // the run was canceled during the call
	require.NoError(t, b.allow(), "another one may try")
	require.Contains(t, b.done(false), "called again")
	require.NoError(t, b.allow())

	for range 40 {
		_ = b.allow()
		b.done(true)
		now = now.Add(breakLongest)
	}
	require.Equal(t, breakLongest, b.pause, "not longer and longer")
}
