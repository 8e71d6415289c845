package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each phase counts its calls from 1. The counters of an earlier phase do not carry over.
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
