package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPreparedFromPrepared checks which setups run for images that are prepared from a
// prepared one, with Prepare and PrepareAnew.
func TestPreparedFromPrepared(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		im := load(t, newSandbox(t, opts), guestWasm, Limits{})
		counts := 0
		count := func(ctx context.Context, in *Instance) error {
			counts++
			_, err := in.Call(ctx, "count")
			return err
		}
		first, err := im.Prepare(t.Context(), InstanceConfig{}, count)
		require.NoError(t, err)
		defer first.Close()
		require.Equal(t, 1, counts)
		for name, tc := range map[string]struct {
			prepare func(context.Context, InstanceConfig, func(context.Context, *Instance) error) (*Image, error)
			counts  int
		}{"Prepare": {first.Prepare, 1}, "PrepareAnew": {first.PrepareAnew, 2}} {
			counts = 0
			second, err := tc.prepare(t.Context(), InstanceConfig{}, count)
			require.NoError(t, err)
			in := instantiate(t, second, InstanceConfig{})
			got, err := in.Call(t.Context(), "count")
			require.NoError(t, err)
			require.Equal(t, []uint64{103}, got, "%s: _initialize, and two stages", name)
			require.Equal(t, tc.counts, counts, name)
			second.Close()
		}
	})
}
