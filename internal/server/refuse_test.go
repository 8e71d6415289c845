package server

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refused asks for what is refused, so many times, and returns how long that took.
func refused(ctx context.Context, f *refusals, who string, n int) time.Duration {
	asked := time.Now()
	for range n {
		f.wait(ctx, who)
	}
	return time.Since(asked)
}

// Who is refused without end waits; who is refused now and then does not.
func TestRefusalsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRefusals(nil)
		require.Zero(t, refused(t.Context(), f, "mallory", 600))
		require.InDelta(t, 10, refused(t.Context(), f, "mallory", 500).Seconds(), 0.1, "50 a second")
		require.Zero(t, refused(t.Context(), f, "acme", 1))
		require.Zero(t, refused(t.Context(), f, noKey, 1))
		for range 100 { // at once
			go func() { refused(t.Context(), f, "mallory", 1) }()
		}
		synctest.Wait()
		require.Equal(t, mostRest, refused(t.Context(), f, "mallory", 1), "none waits for longer")
		time.Sleep(12 * time.Second)
		require.Zero(t, refused(t.Context(), f, "mallory", 600))
	})
}

// What waits has a bound, and an end.
func TestRefusalsDoNotWaitInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		f := newRefusals(draining)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		refused(gone, f, "mallory", 10_000)
		require.Zero(t, refused(gone, f, "mallory", 1), "nobody wants it any more")
		for range mostHeld {
			go func() { refused(t.Context(), f, "mallory", 1) }()
		}
		synctest.Wait()
		require.EqualValues(t, mostHeld, f.held.Load())
		require.Zero(t, refused(t.Context(), f, "mallory", 1), "too many wait")
		close(draining)
		synctest.Wait()
		require.Zero(t, f.held.Load())
	})
}

func TestRefusedRequestsWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"quota": map[string]any{"requests_per_minute": 1}}, nil)
	f.ok("GET", "/v1/keys", f.acme, nil, nil)
	for _, c := range []struct {
		name, who, path, key string
		status               int
	}{
		{"a quota", "acme", "/v1/keys", f.acme, http.StatusTooManyRequests},
		{"a key that there is not", noKey, "/v1/keys", "ar_x", http.StatusUnauthorized},
		{"nothing here", noKey, "/v1/nothing", "", http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			again := func() { f.server.refusals.paces.rest(c.who, refusalTime, nil) }
			for range 1000 {
				again()
			}
			ended := make(chan struct{})
			defer close(ended)
			go func() { // it goes on, so that a slow machine forgives nothing meanwhile
				for tick := time.Tick(time.Millisecond); ; again() {
					select {
					case <-tick:
					case <-ended:
						return
					}
				}
			}()
			asked := time.Now()
			f.send("GET", c.path, c.key, nil).problem(t, c.status)
			require.Greater(t, time.Since(asked), mostRest/2)
		})
	}
}
