package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResponsesAreBounded checks that the responses to a tenant hold no more than their limit, and
// that a stream waits for its share.
func TestResponsesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newResponses()
		one, two, other := all.Open("acme"), all.Open("acme"), all.Open("beta")
		require.NoError(t, one.Set(2*MaxResponseBytes), "the only response may have any size")
		require.NoError(t, two.Set(SmallResponse), "small responses do not count")
		var full *QuotaError
		require.ErrorAs(t, two.Set(SmallResponse+1), &full)
		require.Equal(t, "response_bytes", full.Quota)
		_, err := two.Cover(1 << 20)
		require.ErrorAs(t, err, &full)
		require.EqualValues(t, MaxResponseBytes, all.load("acme"))
		require.NoError(t, other.Set(1<<20), "other tenants have their own limit")

		beats := 0
		go func() {
			time.Sleep(35 * time.Second)
			one.Close()
		}()
		require.NoError(t, two.Wait(t.Context(), 1<<20, 10*time.Second, func() { beats++ }))
		require.Equal(t, 3, beats)
		require.EqualValues(t, 1<<20-SmallResponse, all.load("acme"))
		undo, err := two.Cover(2 << 20)
		require.NoError(t, err)
		require.EqualValues(t, 2<<20-SmallResponse, all.load("acme"))
		undo()
		require.EqualValues(t, 1<<20-SmallResponse, all.load("acme"))
		two.Close()
		other.Close()
		require.Empty(t, all.tenants)
	})
}
