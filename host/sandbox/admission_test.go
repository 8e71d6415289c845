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
	require.ErrorContains(t, err, "needs up to 101 bytes of memory for its modules, of 100 bytes in all; lower")
	require.EqualValues(t, 100, s.admission.free)

	im := load(t, s, guestWasm, Limits{MemoryBytes: 2 << 20, StackBytes: 1 << 20})
	require.EqualValues(t, 5<<20, im.WorstCase())
}

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
		require.Empty(t, order, "the small one waits behind the large one")
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
						return errors.New("more was given than there is")
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
