package refcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// counted counts the values that it has made and closed.
type counted struct {
	made, closed atomic.Int64
}

type value struct{ closed atomic.Bool }

func (c *counted) load(context.Context) (*value, error) {
	c.made.Add(1)
	return &value{}, nil
}

func (c *counted) close(t *testing.T) func(*value) {
	return func(v *value) {
		if v.closed.Swap(true) {
			t.Error("a value was closed twice")
		}
		c.closed.Add(1)
	}
}

func acquire(
	t *testing.T,
	c *Cache[string, *value],
	key string,
	load func(context.Context) (*value, error),
) *Ref[string, *value] {
	t.Helper()
	r, err := c.Acquire(t.Context(), key, load)
	require.NoError(t, err)
	require.False(t, r.Value.closed.Load())
	return r
}

// TestLoadOnce checks that concurrent callers share a value, and the release of the last
// reference closes it.
func TestLoadOnce(t *testing.T) {
	t.Parallel()
	var n counted
	c := New[string](Options[*value]{Close: n.close(t)})
	refs := make([]*Ref[string, *value], 8)
	var wg sync.WaitGroup
	for i := range refs {
		wg.Go(func() { refs[i], _ = c.Acquire(t.Context(), "a", n.load) })
	}
	wg.Wait()
	require.EqualValues(t, 1, n.made.Load())
	require.Len(t, c.Keys(), 1)
	last := refs[0].Retain()
	for _, r := range refs {
		r.Release()
		r.Release()
	}
	require.Zero(t, n.closed.Load())
	last.Release()
	require.EqualValues(t, 1, n.closed.Load())
	require.Empty(t, c.Keys())
	acquire(t, c, "a", n.load).Release()
	require.EqualValues(t, 2, n.made.Load())
}

// TestEvict checks that values in use are not evicted, and that choose receives the idle values in
// the order of their last use.
func TestEvict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n counted
		c := New[string](Options[*value]{Close: n.close(t), KeepIdle: true})
		used := acquire(t, c, "used", n.load)
		for _, key := range []string{"b", "a", "c"} {
			acquire(t, c, key, n.load).Release()
			time.Sleep(time.Second)
		}
		acquire(t, c, "a", n.load).Release()
		require.EqualValues(t, 4, n.made.Load())
		var keys []string
		require.Equal(t, 1, c.Evict(func(idle []Idle[string, *value]) []Idle[string, *value] {
			for _, i := range idle {
				keys = append(keys, i.Key)
			}
			return idle[:1]
		}))
		require.Equal(t, []string{"b", "c", "a"}, keys)
		require.Equal(t, 2, c.EvictAll())
		require.EqualValues(t, 3, n.closed.Load())
		used.Release()
		require.Equal(t, 1, c.EvictAll())
		require.Empty(t, c.Keys())
	})
}

// TestFailedLoad checks that all callers of a failed load receive its error, or that the
// waiting ones load again if Retry says so.
func TestFailedLoad(t *testing.T) {
	t.Parallel()
	for _, retry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var loads atomic.Int64
			failed := errors.New("failed")
			load := func(context.Context) (*value, error) {
				if loads.Add(1) == 1 {
					time.Sleep(time.Second)
					return nil, failed
				}
				return &value{}, nil
			}
			c := New[string](Options[*value]{Retry: func(err error) bool { return retry && errors.Is(err, failed) }})
			errs := make([]error, 2)
			for i := range errs {
				go func() { _, errs[i] = c.Acquire(t.Context(), "a", load) }()
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.ErrorIs(t, errs[0], failed)
			require.Equal(t, !retry, errs[1] != nil)
			acquire(t, c, "a", load)
			require.EqualValues(t, 2, loads.Load())
		})
	}
}

// TestCallersLeave checks that a load is canceled when the contexts of all its callers are done, and that its value
// is closed, even if KeepIdle is set.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var n counted
			var ended error
			load := func(ctx context.Context) (*value, error) {
				select {
				case <-ctx.Done():
					ended = context.Cause(ctx)
				case <-time.After(time.Second):
				}
				return n.load(ctx) // even if ctx is done; the cache then closes the value
			}
			c := New[string](Options[*value]{Close: n.close(t), KeepIdle: keep})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("gone"))
			defer cancel()
			_, err := c.Acquire(ctx, "a", load)
			require.EqualError(t, err, "gone")
			acquire(t, c, "a", n.load).Release() // another load
			time.Sleep(time.Minute)
			synctest.Wait()
			require.ErrorIs(t, ended, errAbandoned)
			if keep {
				require.Equal(t, int64(1), n.closed.Load())
				require.Equal(t, 1, c.EvictAll())
			}
			require.Equal(t, n.made.Load(), n.closed.Load())
			require.Empty(t, c.Keys())
		})
	}
}

// TestPanic checks that Acquire returns a panic of a load as a [*PanicError] with its stack, and
// that the cache does not keep the key.
func TestPanic(t *testing.T) {
	t.Parallel()
	c := New[string](Options[int]{})
	_, err := c.Acquire(t.Context(), "a", func(context.Context) (int, error) { panic("no") })
	var panicked *PanicError
	require.ErrorAs(t, err, &panicked)
	require.EqualError(t, err, "refcache: load panicked: no")
	require.Contains(t, string(panicked.Stack), "TestPanic")
	require.Empty(t, c.Keys())
}

// TestUnderLoad checks that many goroutines that load and evict values never see a closed
// value, and that each value is closed in the end.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		var n counted
		c := New[int](Options[*value]{Close: n.close(t), KeepIdle: keep, Retry: func(error) bool { return true }})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 500 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
					r, err := c.Acquire(ctx, rand.IntN(4), func(ctx context.Context) (*value, error) {
						if rand.IntN(3) == 0 {
							return nil, errors.New("failed")
						}
						time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
						return n.load(ctx)
					})
					cancel()
					if err != nil {
						c.EvictAll()
						continue
					}
					if r.Value.closed.Load() {
						t.Error("a value in use was closed")
					}
					second := r.Retain()
					r.Release()
					second.Release()
				}
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool {
			c.EvictAll()
			return len(c.Keys()) == 0 && n.made.Load() == n.closed.Load()
		}, time.Minute, time.Millisecond)
	}
}
