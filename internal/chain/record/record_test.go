package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecordNext checks that each phase counts its calls from 1, and that calls of an earlier phase
// do not change the counts of a later one.
func TestRecordNext(t *testing.T) {
	t.Parallel()
	first := (*Record)(nil).NextPhase()
	require.Equal(t, "a/b#1", first.NextKey("a", "b"))
	require.Equal(t, "a/b#2", first.NextKey("a", "b"))
	second := first.NextPhase()
	require.Equal(t, "a/b#1", second.NextKey("a", "b"))
	first.NextKey("a", "b")
	require.Equal(t, "a/b#2", second.NextKey("a", "b"))
}
