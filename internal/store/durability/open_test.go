package durability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// open opens a store, and closes it after the test.
func open(t *testing.T, where string, o *store.Options) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), where, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
