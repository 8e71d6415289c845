package account

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tree returns the accounts of a process, a tenant, a run and its pending events.
func tree(limits ...int64) (process, tenant, run, events *Account) {
	process = New(LevelProcess, "process", nil, limits[0])
	tenant = New(LevelTenant, "t", process, limits[1])
	run = New(LevelRun, "r", tenant, limits[2])
	return process, tenant, run, NewDraining(LevelPending, "r", run, limits[3])
}

func TestReservationsCountOnAllLevels(t *testing.T) {
	process, tenant, run, events := tree(10*chunk, 5*chunk, 3*chunk, chunk)
	require.NoError(t, run.TryReserve(10))
	require.NoError(t, events.TryReserve(20))
	require.Equal(t, int64(20), events.Used())
	require.GreaterOrEqual(t, run.Used(), int64(30))
	require.GreaterOrEqual(t, tenant.Used(), run.Used())
	require.GreaterOrEqual(t, process.Used(), tenant.Used())

	events.Release(20)
	require.Equal(t, int64(10), run.Used(), "a drained queue keeps no chunk")
	events.Close()
	run.Close()
	require.Zero(t, tenant.Used())
	tenant.Close()
	require.Zero(t, process.Used())
	require.Positive(t, process.Peak())
	require.ErrorIs(t, run.TryReserve(1), ErrClosed)
	run.Release(1) // a closed account stays empty
	require.Zero(t, run.Used())
}

func TestLimitErrorNamesTheFullAccount(t *testing.T) {
	for _, c := range []struct {
		level  Level
		limits []int64
	}{
		{LevelPending, []int64{1000, 1000, 1000, 99}},
		{LevelRun, []int64{1000, 1000, 99, 1000}},
		{LevelTenant, []int64{1000, 99, 1000, 1000}},
		{LevelProcess, []int64{99, 1000, 1000, 1000}},
	} {
		t.Run(string(c.level), func(t *testing.T) {
			process, _, _, events := tree(c.limits...)
			for _, err := range []error{events.TryReserve(100), events.Reserve(t.Context(), 100)} {
				var limit *LimitError
				require.ErrorAs(t, err, &limit)
				require.Equal(t, c.level, limit.Level)
				require.Equal(t, int64(99), limit.Limit)
				require.Contains(t, err.Error(), "at most 99 bytes")
			}
			require.Zero(t, process.Used(), "what failed left nothing behind")
			require.NoError(t, events.TryReserve(99), "up to the limit it fits, chunk or not")
		})
	}
}

func TestReserveWaitsForDrainingBytesOnly(t *testing.T) {
	for _, level := range []Level{LevelPending, LevelRun, LevelTenant, LevelProcess} {
		t.Run(string(level), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := []int64{1000, 1000, 1000, 1000}
				limits[map[Level]int{LevelProcess: 0, LevelTenant: 1, LevelRun: 2, LevelPending: 3}[level]] = 100
				process, _, run, events := tree(limits...)
				if level != LevelPending {
					require.NoError(t, run.TryReserve(50))
				}
				require.NoError(t, events.Reserve(t.Context(), 50))
				done := make(chan error, 1)
				go func() { done <- events.Reserve(t.Context(), 51) }()
				synctest.Wait()
				if level != LevelPending {
					require.Error(t, <-done, "sticky bytes will not go by themselves")
					go func() { done <- events.Reserve(t.Context(), 50) }()
					synctest.Wait()
				}
				require.Empty(t, done, "it waits")
				events.Release(50)
				require.NoError(t, <-done)
				events.Release(51)
				run.Release(50)
				require.LessOrEqual(t, process.Used(), int64(100))
			})
		})
	}
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewDraining(LevelPending, "", nil, 100)
		require.NoError(t, a.TryReserve(100))
		var mu sync.Mutex
		var order []int
		for i := range 5 {
			go func() {
				if a.Reserve(t.Context(), int64(60-i)) == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		for range 5 {
			a.Release(a.Used())
			synctest.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

func TestABlockedReservationEnds(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		end  func(a *Account, cancel context.CancelCauseFunc)
		want func(t *testing.T, err error)
	}{
		"with its context": {func(_ *Account, cancel context.CancelCauseFunc) { cancel(why) },
			func(t *testing.T, err error) { require.ErrorIs(t, err, why) }},
		"when the account closes": {func(a *Account, _ context.CancelCauseFunc) { a.Close() },
			func(t *testing.T, err error) { require.ErrorIs(t, err, ErrClosed) }},
		"when the limit is raised": {func(a *Account, _ context.CancelCauseFunc) { a.SetLimit(200) },
			func(t *testing.T, err error) { require.NoError(t, err) }},
		"when sticky bytes take its place": {func(a *Account, _ context.CancelCauseFunc) {
			a.Force(0)
			_ = a.reserve(context.Background(), retained, 60, force)
		},
			func(t *testing.T, err error) { var l *LimitError; require.ErrorAs(t, err, &l) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewDraining(LevelRun, "", nil, 100)
				require.NoError(t, a.TryReserve(60))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() { done <- a.Reserve(ctx, 60) }()
				synctest.Wait()
				c.end(a, cancel)
				c.want(t, <-done)
			})
		})
	}
}

func TestForceGoesBeyondTheLimit(t *testing.T) {
	process, _, run, _ := tree(100, 100, 100, 100)
	run.Force(150)
	require.Equal(t, int64(150), process.Used())
	require.Error(t, run.TryReserve(1))
	run.Release(150)
	require.NoError(t, run.TryReserve(1))
}

func TestNilAccountsCountNothing(t *testing.T) {
	var a *Account
	require.NoError(t, a.TryReserve(1<<60))
	require.NoError(t, a.Reserve(t.Context(), 1<<60))
	a.Force(1)
	a.Release(1)
	a.SetLimit(1)
	a.Close()
	require.Zero(t, a.Used()+a.Peak()+a.Limit())
	require.Nil(t, a.Largest())
	require.NoError(t, NewShare(a).Set(1<<60))
	require.NoError(t, New(LevelRun, "", nil, 0).TryReserve(1<<60))
	require.Nil(t, FromContext(t.Context()))
}

func TestLargestIsTheEvictableAccountThatUsesMost(t *testing.T) {
	process := New(LevelProcess, "", nil, 0)
	var ended string
	for i, tenant := range []string{"a", "b"} {
		parent := New(LevelTenant, tenant, process, 0)
		for j, name := range []string{"x", "y"} {
			run := New(LevelRun, tenant+name, parent, 0)
			run.Evictable(func(error) { ended = tenant + name })
			require.NoError(t, NewDraining(LevelPending, "", run, 0).TryReserve(int64(100*(1+i)*(1+j))*chunk))
		}
	}
	largest := process.Largest()
	require.Equal(t, "by", largest.Name())
	require.Len(t, process.Evictables(), 4)
	require.Equal(t, []string{"by"}, []string{process.Evictables()[0].Name()})
	require.True(t, largest.Cancel(nil))
	require.Equal(t, "by", ended)
	largest.Close()
	require.False(t, largest.Cancel(nil))
	require.NotEqual(t, "by", process.Largest().Name())
}

func TestShare(t *testing.T) {
	a := New(LevelRun, "", nil, 100)
	s := NewShare(a)
	require.NoError(t, s.Set(60))
	require.Error(t, s.Add(60))
	require.Equal(t, int64(60), s.Size())
	require.NoError(t, s.Add(-70))
	require.Zero(t, a.Used())
}

func TestConcurrentUseLeavesNothingBehind(t *testing.T) {
	process := New(LevelProcess, "", nil, 40*chunk)
	var all sync.WaitGroup
	for range 4 {
		tenant := New(LevelTenant, "", process, 12*chunk)
		for range 4 {
			run := New(LevelRun, "", tenant, 8*chunk)
			events := NewDraining(LevelPending, "", run, 4*chunk)
			queue := make(chan int64, 100)
			all.Go(func() {
				for n := range queue {
					events.Release(n)
				}
				events.Close()
				run.Close()
			})
			all.Go(func() {
				defer close(queue)
				for range 3000 {
					n := rand.Int64N(2 * chunk)
					if events.Reserve(t.Context(), n) == nil {
						queue <- n
					}
					if state := rand.Int64N(chunk); run.TryReserve(state) == nil {
						run.Release(state)
					}
				}
			})
		}
	}
	all.Wait()
	require.Zero(t, process.Used())
	require.LessOrEqual(t, process.Peak(), process.Limit())
}

// FuzzAgainstModel checks that the use and the failures of a tree of accounts agree with plain
// sums, up to the chunks that accounts hold in advance.
func FuzzAgainstModel(f *testing.F) {
	f.Add([]byte{0, 10, 1, 200, 4, 10, 8, 0, 2, 255, 5, 200})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const scale = chunk / 16
		process := New(LevelProcess, "", nil, 300*scale)
		tenant := New(LevelTenant, "", process, 250*scale)
		type leaf struct {
			run, events      *Account
			retained, drains int64
		}
		leaves := make([]leaf, 2)
		for i := range leaves {
			run := New(LevelRun, "", tenant, 200*scale)
			leaves[i] = leaf{run: run, events: NewDraining(LevelPending, "", run, 100*scale)}
		}
		forced := int64(0)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for ; len(ops) >= 2; ops = ops[2:] {
			l, n := &leaves[ops[0]&1], int64(ops[1])*scale
			other := &leaves[1-ops[0]&1]
			var err error
			var fits bool
			total := l.retained + l.drains
			all := total + other.retained + other.drains
			switch ops[0] >> 1 % 5 {
			case 0:
				fits = total+n <= 200*scale+2*chunk // a parent's share may be up to two chunks larger
				if err = l.run.TryReserve(n); err == nil {
					l.retained += n
				}
			case 1:
				fits = l.drains+n <= 100*scale && total+n <= 200*scale+2*chunk
				if err = l.events.Reserve(canceled, n); err == nil {
					l.drains += n
				}
			case 2:
				n = min(n, l.retained)
				l.run.Release(n)
				l.retained, fits = l.retained-n, true
			case 3:
				n = min(n, l.drains)
				l.events.Release(n)
				l.drains, fits = l.drains-n, true
			case 4:
				l.events.Force(n)
				l.drains, fits = l.drains+n, true
				forced += n
			}
			if err == nil && n > 0 && ops[0]>>1%5 < 2 {
				require.True(t, fits, "it is above a limit")
			}
			// A reservation that would just fit may fail, since sibling accounts hold spare chunks.
			if err != nil {
				require.False(t, fits && all+n+8*chunk <= 250*scale && total+n+4*chunk <= 200*scale && l.drains+n <= 100*scale)
			}
			sum := leaves[0].retained + leaves[0].drains + leaves[1].retained + leaves[1].drains
			require.GreaterOrEqual(t, process.Used(), sum)
			require.LessOrEqual(t, tenant.Used(), 250*scale+forced)
			require.LessOrEqual(t, process.Used(), sum+16*chunk)
			require.Equal(t, l.drains, l.events.Used())
		}
		for i := range leaves {
			leaves[i].events.Close()
			leaves[i].run.Close()
		}
		require.Zero(t, tenant.Used())
		tenant.Close()
		require.Zero(t, process.Used())
	})
}

func BenchmarkReserve(b *testing.B) {
	_, _, _, events := tree(1<<40, 1<<40, 1<<30, 4<<20)
	for b.Loop() {
		_ = events.Reserve(b.Context(), 200)
		events.Release(200)
	}
}

// TestReservationsInTurn checks that TryReserveInTurn fails while another reservation waits, and
// that Full returns the time since a reservation did not fit.
func TestReservationsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewDraining(LevelTenant, "a", nil, 100)
		require.NoError(t, a.TryReserveInTurn(90))
		require.Zero(t, a.Full())
		done := make(chan error)
		go func() { done <- a.Reserve(t.Context(), 20) }()
		synctest.Wait()
		time.Sleep(time.Second)
		var full *LimitError
		require.ErrorAs(t, a.TryReserveInTurn(1), &full)
		a.Force(1)
		require.Equal(t, time.Second, a.Full(), "forced reservations do not matter")
		require.Equal(t, time.Second, New(LevelRun, "r", a, 0).Full(), "an account above is full")
		require.NoError(t, a.TryReserve(1), "without regard to others")
		require.Zero(t, a.Full())
		a.Release(90)
		require.NoError(t, <-done)
		require.NoError(t, a.TryReserveInTurn(1))
	})
}

// TestShareIsExactWhenUsedConcurrently checks that no reservation is lost or left behind.
func TestShareIsExactWhenUsedConcurrently(t *testing.T) {
	a := New(LevelRun, "", nil, 1<<20)
	s := NewShare(a)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				n := rand.Int64N(1000)
				s.Force(n)
				if s.Add(n) == nil {
					_ = s.Add(-n)
				}
				_ = s.Add(-n)
			}
		})
		all.Go(func() {
			for range 1000 {
				_ = s.Set(rand.Int64N(1000))
			}
		})
	}
	all.Wait()
	require.Equal(t, s.Size(), a.Used())
	require.NoError(t, s.Set(0))
	require.Zero(t, a.Used())
}
