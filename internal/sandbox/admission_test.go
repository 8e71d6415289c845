package sandbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{MemoryBytes: 100})
	a, err := s.Reserve(t.Context(), 60)
	require.NoError(t, err)
	b, err := s.Reserve(t.Context(), 40)
	require.NoError(t, err)
	a()
	a()
	c, err := s.Reserve(t.Context(), 60)
	require.NoError(t, err)
	b()
	c()
	_, err = s.Reserve(t.Context(), 101)
	var tooLarge *TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.ErrorContains(t, err, "needs up to 101 bytes of memory for its modules, but can use 100 bytes; lower")
	require.EqualValues(t, 100, s.admission.free)

	im := load(t, s, guestWasm, Limits{MemoryBytes: 2 << 20, StackBytes: 1 << 20})
	require.EqualValues(t, 5<<20, im.WorstCase())
}

// TestReserveInOrder checks that requests are granted in order, except canceled ones, and that they
// fail once the sandbox is closed.
func TestReserveInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(t.Context(), &Options{MemoryBytes: 100})
		require.NoError(t, err)
		first, err := s.Reserve(t.Context(), 60)
		require.NoError(t, err)
		order := make(chan string, 3)
		wait := func(ctx context.Context, name string, bytes int64) {
			go func() {
				release, err := s.Reserve(ctx, bytes)
				if err != nil {
					name += ": " + err.Error()
				}
				order <- name
				if err == nil {
					release()
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait(ctx, "large", 90)
		wait(t.Context(), "small", 10)
		require.Empty(t, order, "the small request waits for the large one")
		cancel(errors.New("never mind"))
		synctest.Wait()
		require.ElementsMatch(t, []string{"large: never mind", "small"}, []string{<-order, <-order})

		wait(t.Context(), "too late", 50)
		require.NoError(t, s.Close(t.Context()))
		synctest.Wait()
		require.Equal(t, "too late: "+ErrClosed.Error(), <-order)
		_, err = s.Reserve(t.Context(), 1)
		require.ErrorIs(t, err, ErrClosed)
		first()
	})
}

func TestReserveHammer(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{MemoryBytes: 100})
	var held atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			errs <- func() error {
				for range 200 {
					n := rand.Int64N(100)
					ctx, cancel := context.WithCancel(context.Background())
					if n%5 == 0 {
						go cancel()
					}
					release, err := s.Reserve(ctx, n)
					cancel()
					if errors.Is(err, context.Canceled) {
						continue
					}
					if err != nil {
						return err
					}
					if held.Add(n) > 100 {
						return errors.New("more was granted than there is")
					}
					held.Add(-n)
					release()
				}
				return nil
			}()
		})
	}
	wg.Wait()
	for range 8 {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, 100, s.admission.free)
}

// TestReserveOneOf checks that work that can use several sizes takes large ones while there is
// enough memory.
func TestReserveOneOf(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{MemoryBytes: 100})
	var got []int
	var releases []func()
	for range 6 {
		n, release, err := s.ReserveOneOf(t.Context(), []int64{10, 20, 40})
		require.NoError(t, err)
		got, releases = append(got, n), append(releases, release)
		if len(got) == 4 {
			require.Equal(t, []int{2, 1, 1, 0}, got)
			releases[0]()
			require.EqualValues(t, 50, s.admission.free)
		}
	}
	require.Equal(t, []int{2, 1, 1, 0, 1, 0}, got)
	for _, release := range releases {
		release()
	}
	require.EqualValues(t, 100, s.admission.free)
	_, _, err := s.ReserveOneOf(t.Context(), []int64{101, 120})
	require.ErrorContains(t, err, "needs up to 101 bytes", "the smallest size")
}

// TestNestedReservation checks that work that holds memory does not wait for more.
func TestNestedReservation(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{MemoryBytes: 100})
	release, err := s.Reserve(t.Context(), 60)
	require.NoError(t, err)
	_, err = s.Reserve(WithReservation(t.Context()), 50)
	var noRoom *NoRoomError
	require.ErrorAs(t, err, &noRoom)
	require.ErrorContains(
		t,
		err,
		"needs up to 50 bytes of memory for its modules; 40 bytes of the 100 bytes that the host may use is free, and what runs within",
	)
	inner, err := s.Reserve(WithReservation(t.Context()), 40)
	require.NoError(t, err)
	inner()

	in := instantiate(t, load(t, s, guestWasm, Limits{}), InstanceConfig{Value: &testValue{
		call: func(ctx context.Context, _ *Guest, n uint32) uint32 {
			_, err = s.Reserve(ctx, 50)
			return n
		}}})
	call(t, in, "call", 1)
	require.ErrorAs(t, err, &noRoom)
	release()
}
