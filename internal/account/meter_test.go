package account_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/account"
)

// TestMeter checks that a meter reserves only the bytes that exceed its free part, that a failed
// addition changes nothing, and that Release returns all reserved bytes.
func TestMeter(t *testing.T) {
	t.Parallel()
	a := account.New(account.LevelRun, "r", nil, 1<<20)
	m := account.Meter{Of: a}
	require.NoError(t, m.Add(32<<10))
	require.Zero(t, a.Used(), "small things are not reserved")
	require.NoError(t, m.Add(512<<10))
	require.Equal(t, int64(512<<10), a.Used())
	require.Error(t, m.Add(600<<10))
	require.Equal(t, int64(512<<10), a.Used(), "a failed addition changes nothing")
	require.NoError(t, m.Add(-400<<10))
	require.Equal(t, int64(112<<10), a.Used())
	m.Release()
	m.Release()
	require.Zero(t, a.Used())
	require.NoError(t, m.Add(100<<10), "it can be used again")
	require.Equal(t, int64(96<<10), a.Used())

	var none account.Meter
	require.NoError(t, none.Add(1<<40))
	none.Release()
}
