package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/chain/local"
)

// TestExcessIsWhatModulesEmit checks that waiting for memory counts as the run's excess while
// events of modules take most of the pending memory, but not while the run's own large messages do.
func TestExcessIsWhatModulesEmit(t *testing.T) {
	for name, c := range map[string]struct {
		event  abi.Event
		excess bool
	}{
		"emitted": {abi.Event{Type: abi.EventCustom}, true},
		"logged":  {abi.Event{Type: abi.EventLog}, true},
		"child":   {abi.Event{Type: abi.EventChild, Event: &abi.Event{Type: abi.EventCustom}}, true},
		"message": {abi.Event{Type: abi.EventMessage}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{root: &Agent{Options: Options{Memory: DefaultMemory}}}
			r.state.Locals = local.New()
			r.openMemory(account.WithContext(t.Context(), account.New(account.LevelTenant, "t", nil, 0)), func(error) {})
			e := delivery.Event{Event: c.event}
			e.Event.Data = make([]byte, DefaultPending/delivery.Copies)
			r.memory.Hold(&e)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.Error(t, r.AwaitMemory(ctx, DefaultPending))
			require.Equal(t, c.excess, r.memory.run.Excess() >= 25*time.Millisecond)
			r.memory.Release(&e)
			require.NoError(t, r.AwaitMemory(t.Context(), 1))
			require.Zero(t, r.memory.Emitted.Load())
		})
	}
}
