package chain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/local"
)

type noHost struct{}

func (noHost) Where() abi.Run             { return abi.Run{} }
func (noHost) Send(e abi.Event) abi.Event { return e }

// TestOnlyWantedEventsWait checks that only events that an observer wants are queued.
func TestOnlyWantedEventsWait(t *testing.T) {
	t.Parallel()
	var got []abi.EventType
	observing := func(name string, types ...abi.EventType) hook.Entry {
		return hook.Entry{Name: name, Middleware: &inproc.Middleware{Description: abi.Description{Events: types},
			Observe: func(_ context.Context, _ *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
				for _, e := range in.Events {
					got = append(got, e.Type)
				}
				return nil, nil
			}}}
	}
	for name, tc := range map[string]struct {
		entries []hook.Entry
		waits   bool
	}{
		"nobody":       {nil, false},
		"another":      {[]hook.Entry{observing("a", abi.EventLog)}, false},
		"this one":     {[]hook.Entry{observing("a", abi.EventMessage)}, true},
		"one of both":  {[]hook.Entry{observing("a", abi.EventLog), observing("b", abi.EventMessage)}, true},
		"all but some": {[]hook.Entry{observing("a")}, true},
	} {
		c, err := New(tc.entries...)
		require.NoError(t, err)
		r, err := c.Open(t.Context(), abi.Run{ID: "run"}, noHost{}, local.New())
		require.NoError(t, err)
		r.Note(&abi.Event{Type: abi.EventChunk})
		require.Empty(t, r.queue.events, name)
		require.False(t, r.Unobserved(), name)
		r.Note(&abi.Event{Type: abi.EventMessage})
		require.Equal(t, tc.waits, r.Unobserved(), name)
		got = nil
		r.Observe(t.Context())
		if tc.waits {
			require.Equal(t, []abi.EventType{abi.EventMessage}, got, name)
		} else {
			require.Empty(t, got, name)
		}
		require.False(t, r.Unobserved(), name)
		r.Close()
	}
}
