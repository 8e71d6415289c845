package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPauseAfterLargeInputs checks that between two large inputs that a tenant writes the disk is
// free for others.
func TestPauseAfterLargeInputs(t *testing.T) {
	t.Parallel()
	for _, input := range []struct {
		bytes       int
		took, pause time.Duration
	}{
		{LargeBody, 100 * time.Millisecond, 0},
		{LargeBody + 1, 100 * time.Millisecond, 300 * time.Millisecond},
		{extraBytes, 75 * time.Millisecond, 300 * time.Millisecond},
		{1 << 20, 21 * time.Millisecond, 231 * time.Millisecond},
		{1 << 20, 60 * time.Millisecond, 660 * time.Millisecond},
		{1 << 20, 100 * time.Millisecond, time.Second},
		{LargeBody + 1, time.Hour, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := contended(t)
			done, err := c.Write(t.Context(), "acme", input.bytes)
			require.NoError(t, err)
			time.Sleep(input.took)
			done()
			began := time.Now()
			done, err = c.Write(t.Context(), "acme", input.bytes)
			require.NoError(t, err)
			require.Equal(t, input.pause, time.Since(began), "%+v", input)
			done()
		})
	}
}
