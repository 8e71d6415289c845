package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// contended returns a controller for two processors in which another tenant is always active and
// each yield takes 1 s, so that work counts as contended.
func contended(t *testing.T) *Controller {
	t.Helper()
	c := New(2, time.Now, nil)
	c.yield = func() time.Duration { return time.Second }
	_, leave, err := c.InFlight.Enter("someone", 0, false, 0)
	require.NoError(t, err)
	t.Cleanup(leave)
	return c
}

// TestThrottlingOfGuests checks that a tenant that has exceeded its CPU budget is delayed in
// proportion, unless it is the only active tenant or nothing else wants the processor.
func TestThrottlingOfGuests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		before time.Duration // processor time that the tenant used
		idle   time.Duration // idle time after this use
		yield  time.Duration // duration of a yield
		alone  bool
		delay  time.Duration // after a turn of 10 ms
	}{
		{"within the burst", cpuBurst / 2, 0, time.Second, false, 0},
		{"uncontended processor", cpuBurst, 0, contention, false, 0},
		{"only active tenant", cpuBurst, 0, time.Second, true, 0},
		{"over budget", cpuBurst, 0, 2 * contention, false, 30 * time.Millisecond},
		{"over budget, then idle", cpuBurst, 20 * time.Millisecond, time.Second, false, 10 * time.Millisecond},
		{"over budget, idle for longer", cpuBurst, 50 * time.Millisecond, time.Second, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := New(2, time.Now, nil)
				if !tc.alone {
					c = contended(t)
				}
				turn := func(tenant string, took time.Duration) (waited time.Duration) {
					began := time.Now()
					done, err := c.Turn(t.Context(), tenant)
					require.NoError(t, err)
					waited = time.Since(began)
					time.Sleep(took)
					done()
					return waited
				}
				c.yield = func() time.Duration { return 0 }
				turn("mallory", tc.before)
				time.Sleep(tc.idle)
				c.yield = func() time.Duration { return tc.yield }
				turn("mallory", 10*time.Millisecond)
				if tc.delay > 0 {
					require.Zero(t, turn("acme", 0), "another tenant is not delayed")
					ctx, cancel := context.WithTimeout(t.Context(), tc.delay/2)
					_, err := c.Turn(ctx, "mallory")
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded, "a delayed guest can be ended")
				}
				require.Equal(t, tc.delay-tc.delay/2, turn("mallory", 0))
			})
		})
	}
}

// TestOneBudgetForAllWork checks that a tenant that continuously reads, runs guests and sends large
// bodies has no more processor time than a tenant that does one of these.
func TestOneBudgetForAllWork(t *testing.T) {
	t.Parallel()
	const piece, span = 10 * time.Millisecond, 20 * time.Second
	kinds := map[string]func(ctx context.Context, c *Controller, work func() error) error{
		"reads": func(ctx context.Context, c *Controller, work func() error) error {
			return c.Read(ctx, "mallory", false, work)
		},
		"guests": func(ctx context.Context, c *Controller, work func() error) error {
			done, err := c.Turn(ctx, "mallory")
			if err != nil {
				return err
			}
			defer done()
			return work()
		},
		"bodies": func(ctx context.Context, c *Controller, work func() error) error {
			return c.Parse(ctx, "mallory", LargeBody+1, work)
		},
	}
	share := func(t *testing.T, names ...string) (share float64) {
		synctest.Test(t, func(t *testing.T) {
			c := contended(t)
			ctx, cancel := context.WithTimeout(t.Context(), span)
			defer cancel()
			var took atomic.Int64
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() {
					for kinds[name](ctx, c, func() error {
						time.Sleep(piece)
						took.Add(int64(piece))
						return nil
					}) == nil && ctx.Err() == nil {
					}
				})
			}
			all.Wait()
			share = float64(took.Load()-int64(cpuBurst)) / float64(span)
		})
		return share
	}
	for name := range kinds {
		require.InDelta(t, cpuShare, share(t, name), 0.03, name)
	}
	require.InDelta(t, cpuShare, share(t, "reads", "guests", "bodies"), 0.08)
}

// TestReads checks that a tenant's reads of lists run one at a time, that other tenants and requests
// for the state of a run do not wait for them, and that a panic releases the slot.
func TestReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contended(t)
		began := time.Now()
		read := func(tenant string, took time.Duration) (at time.Duration) {
			require.NoError(t, c.Read(t.Context(), tenant, false, func() error {
				at = time.Since(began)
				time.Sleep(took)
				return nil
			}))
			return at
		}
		go func() {
			defer func() { _ = recover() }()
			_ = c.Read(t.Context(), "mallory", false, func() error {
				time.Sleep(cpuBurst + 50*time.Millisecond)
				panic("failed")
			})
		}()
		synctest.Wait()
		require.Zero(t, read("acme", time.Millisecond))
		require.NoError(t, c.Read(t.Context(), "mallory", true, func() error { return nil }))
		require.Equal(t, time.Millisecond, time.Since(began), "the state of a run does not wait for lists")
		require.Equal(t, 500*time.Millisecond, read("mallory", 0), "300 ms, plus four times the excess over the burst")
	})
}

// TestChecks checks that a tenant that uploads continuously is not delayed within its burst, and
// then compiles for a quarter of the time. Other tenants are not delayed.
func TestChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contended(t)
		check := func(tenant string, took time.Duration) (waited time.Duration) {
			began := time.Now()
			done, err := c.Check(t.Context(), tenant)
			require.NoError(t, err)
			waited = time.Since(began)
			compiled, err := c.Compile(t.Context(), tenant)
			require.NoError(t, err)
			time.Sleep(took)
			compiled()
			done()
			return waited
		}
		require.Zero(t, check("mallory", 2*time.Second))
		require.Zero(t, check("mallory", 3*time.Second), "within the burst")
		require.Zero(t, check("acme", time.Second))
		began := time.Now()
		for range 100 {
			check("mallory", 100*time.Millisecond)
		}
		require.InDelta(
			t,
			36,
			time.Since(began).Seconds(),
			1,
			"10 s of work, delayed by three times as much after the rest of the burst",
		)
	})
}

// TestShareOfCompilations checks that a tenant that uploads continuously compiles for checkShare of
// the time, whether one of its modules compiles in 50 ms or in 20 s.
func TestShareOfCompilations(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := contended(t)
				const span = time.Hour
				used := time.Duration(0)
				for began := time.Now(); time.Since(began) < span; used += took {
					checked, err := c.Check(t.Context(), "mallory")
					require.NoError(t, err)
					compiled, err := c.Compile(t.Context(), "mallory")
					require.NoError(t, err)
					time.Sleep(took)
					compiled()
					checked()
				}
				require.InDelta(t, checkShare, (used-checkBurst).Seconds()/span.Seconds(), 0.01)
			})
		})
	}
}

// TestWaitsForCompilersAreNotCharged checks that a tenant is not delayed because it waited for the
// compilations of others.
func TestWaitsForCompilersAreNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contended(t)
		for _, tenant := range []string{"mallory", "trudy"} {
			done, err := c.Compile(t.Context(), tenant)
			require.NoError(t, err)
			time.AfterFunc(time.Minute, done)
		}
		for range 2 {
			began := time.Now()
			checked, err := c.Check(t.Context(), "acme")
			require.NoError(t, err)
			require.Zero(t, time.Since(began))
			compiled, err := c.Compile(t.Context(), "acme")
			require.NoError(t, err)
			time.Sleep(time.Second)
			compiled()
			checked()
		}
	})
}
