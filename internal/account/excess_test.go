package account

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExcess checks that overlapping periods count once, and that a period in progress counts up to
// now.
func TestExcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(LevelRun, "run", nil, 10)
		a.BeginExcess()
		time.Sleep(time.Second)
		a.BeginExcess()
		time.Sleep(time.Second)
		require.Equal(t, 2*time.Second, a.Excess())
		a.EndExcess()
		time.Sleep(time.Second)
		a.EndExcess()
		time.Sleep(time.Second)
		require.Equal(t, 3*time.Second, a.Excess())
		var none *Account
		none.BeginExcess()
		none.EndExcess()
		require.Zero(t, none.Excess())
	})
}
