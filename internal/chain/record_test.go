package chain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A phase counts its calls from the beginning, and what goes on with an earlier one
// does not count in it.
func TestRecordNext(t *testing.T) {
	t.Parallel()
	first := (*Record)(nil).Next()
	require.Equal(t, "a/b#1", first.next("a", "b"))
	require.Equal(t, "a/b#2", first.next("a", "b"))
	second := first.Next()
	require.Equal(t, "a/b#1", second.next("a", "b"))
	first.next("a", "b")
	require.Equal(t, "a/b#2", second.next("a", "b"))
}
