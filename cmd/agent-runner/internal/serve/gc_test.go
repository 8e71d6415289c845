package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 3200}, {1 << 20, 3200}, {32 << 20, 400}, {128 << 20, 100}, {1 << 30, 100}} {
		require.Equal(t, c.want, percentFor(c.live), "%d", c.live)
	}
}

// held keeps memory reachable.
var held []byte

func TestCollectLater(t *testing.T) {
	percent := func() int {
		set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(set)
		return int(set[0].Value.Uint64())
	}
	none := func(string) string { return "" }
	before := percent()
	t.Cleanup(func() { debug.SetGCPercent(before) })

	restore := collectLater(none)
	require.Eventually(t, func() bool { runtime.GC(); return percent() > 100 }, 10*time.Second, time.Millisecond)
	held = make([]byte, 2*minHeapGrowth)
	require.Eventually(t, func() bool { runtime.GC(); return percent() == 100 }, 10*time.Second, time.Millisecond,
		"with a large heap, collections are as frequent as before")
	held = nil
	require.Eventually(t, func() bool { runtime.GC(); return percent() > 100 }, 10*time.Second, time.Millisecond,
		"with a small heap, collections are rare again")
	restore()
	require.Equal(t, 100, percent())
	for range 3 {
		runtime.GC()
	}
	require.Equal(t, 100, percent(), "and stays")
	restore()

	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		debug.SetGCPercent(70)
		restore := collectLater(func(n string) string { return map[string]string{name: "1"}[n] })
		runtime.GC()
		require.Equal(t, 70, percent(), name)
		restore()
		require.Equal(t, 70, percent(), name)
	}
}
