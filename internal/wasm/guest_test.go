package wasm

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/internal/longtest"
)

// document returns about size bytes of JSON.
func document(t testing.TB, size int) []byte {
	type item struct {
		ID    int               `json:"id"`
		Role  string            `json:"role"`
		Text  string            `json:"text"`
		Score float64           `json:"score"`
		Tags  []string          `json:"tags"`
		Extra map[string]string `json:"extra"`
	}
	var items []item
	for n := 0; n < size; {
		i := item{
			len(items),
			"user",
			"what is the \"weather\" like in Zürich?\n",
			float64(len(items)) / 3,
			[]string{"a", "bc"},
			map[string]string{"k": "v"},
		}
		b, err := json.Marshal(i)
		require.NoError(t, err)
		items = append(items, i)
		n += len(b) + 1
	}
	b, err := json.Marshal(items)
	require.NoError(t, err)
	return b
}

// hook passes a document through the Go guest.
func (k *machine) hook(t testing.TB, in []byte) []byte {
	at, trap := k.call("room", uint64(len(in)))
	require.Empty(t, trap)
	require.True(t, k.Memory().Write(uint32(at[0]), in))
	n, trap := k.call("hook")
	require.Empty(t, trap)
	at, trap = k.call("output")
	require.Empty(t, trap)
	out, ok := k.Memory().Read(uint32(at[0]), uint32(n[0]))
	require.True(t, ok)
	return append([]byte(nil), out...)
}

func TestGoGuestMetered(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	m, err := Decode(goGuest(t), DefaultLimits())
	require.NoError(t, err)
	require.Empty(t, m.ResetObstacles())
	original := start(t, wazero.NewRuntimeConfig(), m)
	k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{FixTables: true, MemoryPages: 1024}))
	again := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{FixTables: true, MemoryPages: 1024}))
	again.supply.slice = 777_777 // the size of fuel slices must not affect the count
	for _, size := range []int{1 << 10, 100 << 10, 10} {
		in := document(t, size)
		want := original.hook(t, in)
		require.JSONEq(t, string(in), string(want))
		require.Equal(t, want, k.hook(t, in))
		require.Equal(t, want, again.hook(t, in))
		require.Equal(t, k.used(), again.used())
	}
	require.Positive(t, k.supply.calls)
}

// TestGoGuestCount checks that the fuel count of a Go guest is at least the exact number of
// instructions and at most 0.5 % above it. Measured: 0.02 to 0.13 %, with one charge for each 26
// instructions.
func TestGoGuestCount(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	m, err := Decode(goGuest(t), DefaultLimits())
	require.NoError(t, err)
	exact := start(t, wazero.NewRuntimeConfig(), countExactly(m))
	k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
	for _, size := range []int{1 << 10, 1 << 10, 100 << 10, 100 << 10} {
		in := document(t, size)
		before, used := exact.ExportedGlobal("exact").Get(), k.used()
		require.Equal(t, exact.hook(t, in), k.hook(t, in))
		work := int64(exact.ExportedGlobal("exact").Get() - before)
		require.GreaterOrEqual(t, k.used()-used, work)
		require.LessOrEqual(t, k.used()-used, work+work/200)
	}
}

// BenchmarkHook measures the time of a hook in a metered guest relative to an unmetered one. It
// runs both alternately, so that the machine's load affects both equally.
func BenchmarkHook(b *testing.B) {
	m, err := Decode(goGuest(b), DefaultLimits())
	require.NoError(b, err)
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			in := document(b, size)
			guests := []*machine{
				start(b, wazero.NewRuntimeConfig(), m),
				start(b, wazero.NewRuntimeConfig(), metered(b, m, MeterOptions{FixTables: true})),
			}
			var spent [2]time.Duration
			for _, k := range guests {
				k.supply.slice = 100_000
				k.hook(b, in)
			}
			for b.Loop() {
				for i, k := range guests {
					begun := time.Now()
					k.hook(b, in)
					spent[i] += time.Since(begun)
				}
			}
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "times-unmetered")
		})
	}
}

func BenchmarkMeter(b *testing.B) {
	m, err := Decode(goGuest(b), DefaultLimits())
	require.NoError(b, err)
	b.SetBytes(int64(len(goGuest(b))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Meter(m, MeterOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
