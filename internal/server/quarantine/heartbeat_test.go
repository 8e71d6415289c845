package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestExcessRate checks that a run exceeds its share if its modules wait most of the time for
// memory for their events. A run that waits occasionally, or once for a long time, does not.
func TestExcessRate(t *testing.T) {
	at := time.Now()
	for part, over := range map[float64]bool{0.9: true, 0.6: true, 0.4: false, 0: false} {
		var b *excessRate
		excess := time.Duration(0)
		for range 30 {
			at = at.Add(heartbeatInterval)
			excess += time.Duration(part * float64(heartbeatInterval))
			b = b.next(at, excess)
		}
		require.Equal(t, over, !b.over.IsZero() && at.Sub(b.over) >= ExcessTime, "%v", part)
	}
	b := &excessRate{at: at}
	for i := range 10 {
		at = at.Add(heartbeatInterval)
		b = b.next(at, min(time.Duration(i), 3)*heartbeatInterval)
		require.True(t, b.over.IsZero() || at.Sub(b.over) < ExcessTime)
	}
	q := &Service{of: account.New(account.LevelProcess, "test", nil, 0), seen: map[string]*excessRate{}}
	a := account.New(account.LevelRun, "run_x", q.of, 100)
	a.Evictable(func(error) {})
	require.NoError(t, a.Reserve(t.Context(), 10))
	require.Empty(t, q.accounts(at, overload.State{}))
	account := []store.RunAccount{{Run: "run_x", Held: 10, Share: 100}}
	require.Equal(t, account, q.accounts(at, overload.State{Pressure: 0.9}))
	q.trial = &journal.RunInfo{}
	require.Equal(t, account, q.accounts(at, overload.State{}), "while a suspect is on trial")
}
