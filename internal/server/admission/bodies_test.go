package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLargeInputsAreWrittenInTurn checks that large inputs of a tenant are written one at a time and
// charged to its budget. Small inputs, and those of other tenants, do not wait.
func TestLargeInputsAreWrittenInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contended(t)
		began := time.Now()
		write := func(tenant string, bytes int, took time.Duration) (at time.Duration) {
			done, err := c.Write(t.Context(), tenant, bytes)
			require.NoError(t, err)
			at = time.Since(began)
			time.Sleep(took)
			done()
			return at
		}
		go write("mallory", LargeBody+1, cpuBurst+50*time.Millisecond)
		synctest.Wait()
		require.Zero(t, write("mallory", LargeBody, 0))
		require.Zero(t, write("acme", LargeBody+1, 0))
		require.Equal(
			t,
			500*time.Millisecond,
			write("mallory", LargeBody+1, 0),
			"300 ms, plus four times the excess over the burst",
		)
	})
}
