package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// slack bounds, on a busy machine, the time of work that takes milliseconds on an idle one.
const slack = 2 * time.Second

// heapSlack bounds the growth of the heap in bytes while all cases run: pools hold an instance for
// some time, and tests hold their logs.
const heapSlack = 48 << 20

// allocSlack bounds the total allocations of the host for a case in bytes: 128 times the longest
// answer. A hook that stores a value of 4 MB until its deadline causes 330 to 550 MB, the more the
// faster the machine is.
const allocSlack = 1 << 30

func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the whole catalogue")
	}
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	requireWorking(t, h)
	before := memory()
	names := map[string]bool{}
	var worst time.Duration
	for _, c := range Cases() {
		name := c.Group + "/" + c.Name
		require.False(t, names[name], "%s is duplicated", name)
		names[name] = true
		t.Run(name, func(t *testing.T) {
			c.Module = fixed(c.Module())
			others := goleak.IgnoreCurrent()
			began, before := time.Now(), allocations()
			o := h.run(t.Context(), &c)
			took, allocated := time.Since(began), allocations()-before
			err := o.check(&c)
			if err == nil && allocated > allocSlack {
				err = fmt.Errorf("the host allocated %d MB for it", allocated>>20)
			}
			if err == nil && c.Kind != sandbox.FaultInternal {
				require.Empty(t, h.complaints(), "the host noted a mistake of its own")
			}
			h.complaints()
			late := o.overshoot(&c)
			if err == nil && late > caseSlack() {
				err = fmt.Errorf("its hook worked for %v after its deadline", late)
			}
			require.NoError(t, err)
			worst = max(worst, late)
			goleak.VerifyNone(t, others)
			if took > time.Second || allocated > allocSlack/4 {
				t.Logf("took %v, and %d MB in all", took, allocated>>20)
			}
		})
	}
	requireWorking(t, h)
	require.Less(t, memory()-before, int64(heapSlack), "memory did not return to where it was")
	t.Logf("the longest work of a hook after its deadline was %v", worst)
}

// caseSlack returns the time by which a hook of a case may exceed its deadline. With -strict, it is deadlineSlack,
// which the host guarantees. Otherwise it is enough for a busy machine, but not for a hook that is never stopped.
func caseSlack() time.Duration {
	if *strictFlag {
		return deadlineSlack
	}
	return 25 * deadlineSlack
}

// overshoot returns the processor time that a failed call of c.Hook used beyond its deadline: the
// maximum over all such calls, or 0 if c does not expect a timeout. It ignores calls that waited
// for next. Elapsed time would include the work of other threads.
func (o *outcome) overshoot(c *Case) (worst time.Duration) {
	for _, call := range o.calls {
		if c.Kind == sandbox.FaultTimeout && call.hook == c.Hook && call.err != nil && !call.waits {
			worst = max(worst, call.cpu-c.Limits.HookTime)
		}
	}
	return worst
}

// TestTruncatedAnywhere checks that every prefix of a module is rejected.
func TestTruncatedAnywhere(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	whole := honest()
	require.NoError(t, h.run(t.Context(), &Case{Module: fixed(whole)}).noFault())
	for n := range len(whole) {
		c := &Case{Module: fixed(slices.Clone(whole[:n])), Want: Refused}
		require.NoError(t, h.run(t.Context(), c).check(c), "the first %d bytes", n)
	}
	require.Empty(t, h.complaints())
}

// TestFuelIsExact checks that a module that runs repeatedly uses the same amount of fuel each time,
// and at most 10 % more than its budget.
func TestFuelIsExact(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	for _, build := range []func() []byte{
		callTree, func() []byte { return doing(contract.HookBeforeAgent, forever(i32(1), drop)) }, remembering,
	} {
		var fuel []int64
		for range 3 {
			c := &Case{Module: build}
			c.Limits.Fuel = 3_000_000
			o := h.run(t.Context(), c)
			require.NoError(t, o.refusal)
			fuel = append(fuel, o.Last().Entries[0].Fuel)
		}
		require.Equal(t, []int64{fuel[0], fuel[0], fuel[0]}, fuel)
		require.Positive(t, fuel[0])
		require.Less(t, fuel[0], int64(3_300_000), "no more than a body beyond its budget")
	}
}

// TestSameBytesAtOnce checks that 100 concurrent loads of the same bytes have the same digest and
// take less than 20 times as long as one load, plus 1 s: the bytes are compiled once.
func TestSameBytesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the whole catalogue")
	}
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	large := func(i int) []byte { // takes about 100 ms
		g := newGuest()
		for range 200 {
			g.function(
				"i",
				"i",
				repeat(300, join(local(0), i32(i), add, setLocal(n0), local(n0), when(local(n0), setLocal(n1)))...),
				local(n1),
			)
		}
		return g.hook(contract.HookBeforeAgent).bytes()
	}
	load := func(b []byte, times int) time.Duration {
		var all sync.WaitGroup
		digests := make([]string, times)
		began := time.Now()
		for i := range times {
			all.Go(func() {
				m, err := h.loader.LoadBytes(t.Context(), "hostile.wasm", b, policy.Limits{})
				if err == nil {
					digests[i] = m.Info().Digest
					defer m.Close()
				}
			})
		}
		all.Wait()
		for _, d := range digests {
			require.Equal(t, digests[0], d)
			require.NotEmpty(t, d)
		}
		return time.Since(began)
	}
	one := load(large(1), 1)
	hundred := load(large(2), 100)
	t.Logf("one load took %v, a hundred of other bytes %v", one, hundred)
	require.Less(t, hundred, 20*one+time.Second)
}

// TestCollectorKeepsRunning checks that guests in loops do not block the garbage collector.
func TestCollectorKeepsRunning(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	var worst time.Duration
	for _, build := range []func() []byte{
		func() []byte { return doing(contract.HookBeforeAgent, forever()) }, callTree,
		func() []byte {
			return newGuest().memory(1000).hook(contract.HookBeforeAgent, forever(i32(0), i32(1), i32(1000<<16), fill)).bytes()
		},
		func() []byte {
			return doing(contract.HookBeforeAgent, forever(repeat(60_000, join(local(n0), setLocal(n1))...)))
		},
	} {
		ended := make(chan *outcome)
		c := &Case{Module: build, Limits: within(200 * time.Millisecond)}
		c.Limits.Fuel = 1 << 62
		go func() { ended <- h.run(t.Context(), c) }()
		for running := true; running; {
			select {
			case o := <-ended:
				require.NoError(t, o.refusal)
				require.Len(t, o.Of(abi.EventFault), 1)
				running = false
			default:
				began := time.Now()
				runtime.GC()
				worst = max(worst, time.Since(began))
			}
		}
	}
	t.Logf("the longest collection took %v", worst)
	require.Less(t, worst, slack)
}

// TestDigestThatDiffers checks that a manifest with another digest than the module's is
// rejected.
func TestDigestThatDiffers(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.wasm"), honest(), 0o600))
	path := filepath.Join(dir, "m.json")
	require.NoError(
		t,
		os.WriteFile(path, []byte(`{"wasm":[{"path":"m.wasm","hash":"`+strings.Repeat("0", 64)+`"}]}`), 0o600),
	)
	_, err = h.loader.Load(t.Context(), path, policy.Limits{})
	var refused *verify.RefusedError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "the module's SHA-256 is")
}

// TestFiles checks that a directory, a device and a file of 1 TiB are rejected as modules.
func TestFiles(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.wasm")
	f, err := os.Create(huge)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	for path, want := range map[string]string{
		huge: "more bytes than the limit", dir: "is a directory", "/dev/zero": "not a regular file",
	} {
		_, err := h.loader.Load(t.Context(), path, policy.Limits{})
		require.ErrorContains(t, err, want)
	}
}

// TestCallerLeaves checks that canceling the context ends a run whose module loops in a hook, for
// four hooks, and that no goroutine is left.
func TestCallerLeaves(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	for _, hook := range []abi.Hook{
		contract.HookBeforeAgent, contract.HookWrapModel, contract.HookOnChunk, contract.HookWrapToolCall,
	} {
		t.Run(string(hook), func(t *testing.T) {
			others := goleak.IgnoreCurrent()
			g := newGuest()
			log := g.abi("log")
			c := &Case{Module: fixed(g.hook(hook, i32(1), i32(0), i32(8), call(log), forever()).bytes())}
			c.Limits.HookTime, c.Limits.Fuel = time.Hour, 1<<62
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Watch = func(e abi.Event) {
				if e.Type == abi.EventLog {
					cancel() // the hook is in its loop
				}
			}
			o := h.run(ctx, c)
			require.NoError(t, o.refusal)
			require.Equal(t, abi.RunCanceled, o.Last().FinishReason)
			goleak.VerifyNone(t, others)
		})
	}
}
