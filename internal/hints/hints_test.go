package hints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
)

func TestNetwork(t *testing.T) {
	n := hintstest.NewNetwork(0)
	hintstest.Run(t, func(t *testing.T) hints.Bus {
		b, _ := n.Join()
		t.Cleanup(func() { _ = b.Close() })
		return b
	})
}

// TestNone checks that None accepts and rejects what the other buses do.
func TestNone(t *testing.T) {
	hintstest.Invalid(t, hints.None{})
	require.NoError(t, hints.None{}.Close())
}

func TestCut(t *testing.T) {
	n := hintstest.NewNetwork(0)
	a, cut := n.Join()
	b, _ := n.Join()
	got := make(chan string, 4)
	_, err := b.Subscribe("x", func(h []byte) { got <- string(h) })
	require.NoError(t, err)
	cut(true)
	require.NoError(t, a.Publish("x", []byte("lost")))
	time.Sleep(10 * time.Millisecond)
	cut(false)
	require.NoError(t, a.Publish("x", []byte("arrives")))
	require.Equal(t, "arrives", <-got)
}
