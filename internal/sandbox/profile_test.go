package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// profiled returns the profile and the report of a call.
func profiled(
	t *testing.T,
	module []byte,
	l Limits,
	cfg InstanceConfig,
	export string,
	args ...uint64,
) ([]ProfileSample, Report) {
	t.Helper()
	var p Profile
	s := newSandbox(t, Options{Profile: &p, CacheDir: t.TempDir(), CompileChild: &child.Options{}})
	in := instantiate(t, load(t, s, module, l), cfg)
	p.Reset()
	_, _ = in.Call(t.Context(), export, args...) // the fuel is the same if it fails
	var fuel int64
	for _, sample := range p.Samples() {
		require.Equal(t, "guest.wasm", sample.Module)
		fuel += sample.Fuel
	}
	require.EqualValues(t, in.Report().Fuel, fuel, "all fuel is somebody's")
	return p.Samples(), in.Report()
}

func TestProfile(t *testing.T) {
	t.Parallel()
	value := &testValue{call: func(context.Context, *Guest, uint32) uint32 { return 0 }}
	samples, report := profiled(t, guestWasm, Limits{}, InstanceConfig{Value: value}, "call", 7)
	require.Len(t, samples, 2)
	require.Equal(t, ProfileSample{"guest.wasm", "call", []string{"inner", "$27"}, 1, samples[0].Fuel}, samples[0])
	require.Equal(t, ProfileSample{"guest.wasm", "call", []string{"$27"}, 1, samples[1].Fuel}, samples[1])
	require.Greater(t, samples[0].Fuel, int64(importFuel), "what an import costs is its caller's")

	plain := guest(t, InstanceConfig{Value: value}, Limits{})
	call(t, plain, "call", 7)
	require.Equal(t, plain.Report().Fuel, report.Fuel, "nothing costs more because it is counted")
}

// TestProfileOfFaults checks that the profile counts the fuel of functions that a fault ends.
func TestProfileOfFaults(t *testing.T) {
	t.Parallel()
	samples, _ := profiled(t, guestWasm, Limits{Fuel: 100_000, HookTime: time.Minute}, InstanceConfig{}, "loop")
	require.Len(t, samples, 1)
	require.Equal(t, []string{"loop"}, samples[0].Stack)
	require.GreaterOrEqual(t, samples[0].Fuel, int64(100_000))

	samples, _ = profiled(t, guestWasm, Limits{StackBytes: 1 << 20}, InstanceConfig{}, "recurse", 1_000_000)
	require.Len(t, samples, maxProfileDepth, "what is deeper counts where it was called")

	value := &testValue{call: func(context.Context, *Guest, uint32) uint32 { panic("a bug of the host") }}
	samples, _ = profiled(t, guestWasm, Limits{}, InstanceConfig{Value: value}, "call", 7)
	require.Len(t, samples, 2)
}

// TestProfileOfNestedCalls checks that the calls of an instance and of the instance that calls it
// are counted separately.
func TestProfileOfNestedCalls(t *testing.T) {
	t.Parallel()
	var p Profile
	s := newSandbox(t, Options{Profile: &p})
	im := load(t, s, guestWasm, Limits{Nesting: 2})
	inner := instantiate(t, im, InstanceConfig{})
	outer := instantiate(
		t,
		im,
		InstanceConfig{Value: &testValue{call: func(ctx context.Context, _ *Guest, _ uint32) uint32 {
			_, err := inner.Call(ctx, "count")
			require.NoError(t, err)
			return 0
		}}},
	)
	p.Reset()
	call(t, outer, "call", 7)
	call(t, outer, "call", 7)
	calls := map[string]int64{}
	for _, sample := range p.Samples() {
		calls[sample.Export+" "+sample.Stack[0]] = sample.Calls
	}
	require.Equal(t, map[string]int64{"call inner": 2, "call $27": 2, "count $10": 2}, calls)
}
