package sandbox

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestOldInstancesRetire checks that the pool closes an instance after many uses or a long time.
func TestOldInstancesRetire(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	use := func(during func(c *core)) any {
		in, err := im.Instantiate(t.Context(), InstanceConfig{})
		require.NoError(t, err)
		defer in.Close()
		require.Equal(t, []uint64{101}, call(t, in, "count"))
		during(in.core)
		return in.core.module
	}
	nothing := func(*core) {}
	first := use(nothing)
	for range maxUses - 1 {
		require.Same(t, first, use(nothing))
	}
	second := use(nothing)
	require.NotSame(t, first, second)
	require.Same(t, second, use(func(c *core) { c.created = c.created.Add(-maxAge) }))
	require.NotSame(t, second, use(nothing))
}

// TestIdleBudget checks that the memory of idle instances is bounded.
func TestIdleBudget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bytes    int64
		retained int
	}{
		"two":  {2 * 131072, 2}, // the guest has 2 pages of 64 KiB
		"none": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, Options{IdleBytes: tc.bytes})
			im := load(t, s, guestWasm, Limits{})
			var live []*Instance
			for range 4 {
				live = append(live, instantiate(t, im, InstanceConfig{}))
			}
			for _, in := range live {
				in.Close()
			}
			require.Equal(t, tc.retained, im.pool.count())
			im.Close()
			require.Zero(t, s.idleBudget.used)
		})
	}
}

// TestIdleTimeout checks that an instance is closed after its idle timeout.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(t.Context(), &Options{Surface: testSurface(), IdleTimeout: time.Minute})
		require.NoError(t, err)
		im, err := s.Load(t.Context(), "guest.wasm", guestWasm, Limits{})
		require.NoError(t, err)
		hold := func() *Instance {
			in, err := im.Instantiate(t.Context(), InstanceConfig{})
			require.NoError(t, err)
			return in
		}
		a, b := hold(), hold()
		a.Close()
		time.Sleep(40 * time.Second)
		b.Close()
		require.Equal(t, 2, im.pool.count())
		time.Sleep(21 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, im.pool.count(), "only a has been idle for a minute")
		hold().Close()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, im.pool.count(), "b was used since")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, im.pool.count())
		require.Zero(t, s.idleBudget.used)
		hold().Close()
		require.NoError(t, s.Close(t.Context()))
		im.Close()
	})
}

// TestPoolHammer checks that goroutines that share a pool get clean instances.
func TestPoolHammer(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		s := newSandbox(t, opts)
		im := load(t, s, large(nil), Limits{})
		errs := make(chan error, 8)
		var wg sync.WaitGroup
		for g := range uint64(8) {
			wg.Go(func() {
				errs <- func() error {
					for range 50 {
						in, err := im.Instantiate(context.Background(), InstanceConfig{})
						if err != nil {
							return err
						}
						results, err := in.Call(context.Background(), "hook", g)
						if err != nil {
							return err
						}
						if results[0] != 2*g {
							return errors.New("the instance was not clean")
						}
						in.Close()
					}
					return nil
				}()
			})
		}
		wg.Wait()
		for range 8 {
			require.NoError(t, <-errs)
		}
		require.LessOrEqual(t, im.pool.count(), 8)
	})
}

// TestIdleStacks checks that a reset drops large stacks, and that small ones are kept and
// counted.
func TestIdleStacks(t *testing.T) {
	counting := module(func(m *wasm.Module) { // hook(n) is 0, or hook(n-1) + 1
		m.Code[0].Body = []byte{
			0x20,
			0,
			0x04,
			0x7f,
			0x20,
			0,
			0x41,
			1,
			0x6b,
			0x10,
			0,
			0x41,
			1,
			0x6a,
			0x05,
			0x41,
			0,
			0x0b,
			0x0b,
		}
	})
	im := load(t, newSandbox(t, Options{}), counting, Limits{})
	in, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	require.Equal(t, []uint64{3}, call(t, in, "hook", 3))
	few, ok := engine.StackBytes(in.core.function("hook"))
	require.True(t, ok)
	retained := in.core
	in.Close()
	require.Len(t, retained.functions, 1)
	require.GreaterOrEqual(t, im.pool.idle[0].bytes, few)

	in, err = im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	require.Equal(t, []uint64{10_000}, call(t, in, "hook", 10_000))
	many, ok := engine.StackBytes(in.core.function("hook"))
	require.True(t, ok)
	require.Greater(t, many, int64(maxIdleStack))
	in.Close()
	require.Empty(t, retained.functions)
	require.Less(t, im.pool.idle[0].bytes, many)
}

// count returns the number of idle instances.
func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
