package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuestsRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before time.Duration // what the tenant's guests had lately
		idle   time.Duration // for how long they did nothing since
		wanted time.Duration // what others had of the processor before the turn
		alone  bool          // there is no other tenant: what it waits for is its own
		rest   time.Duration // behind a turn of 10 ms
	}{
		{"few turns", workBurst / 2, 0, time.Second, false, 0},
		{"many turns, and nobody else wants the processor", time.Minute, 0, crowded, false, 0},
		{"many turns, and nobody else is there", time.Minute, 0, time.Second, true, 0},
		{"many turns", time.Minute, 0, 2 * crowded, false, 30 * time.Millisecond},
		{"many turns, and a moment of nothing", time.Minute, 20 * time.Millisecond, time.Second, false, 10 * time.Millisecond},
		{"many turns, a while ago", time.Minute, 50 * time.Millisecond, time.Second, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGuests(newTurns("turns of a processor", 4, 1, 10), newWork(1), func(string) bool { return !c.alone })
				g.yield = func() time.Duration { return 0 }
				turn := func(took time.Duration) (waited time.Duration) {
					asked := time.Now()
					done, err := g.turn(t.Context(), "mallory")
					require.NoError(t, err)
					waited = time.Since(asked)
					time.Sleep(took)
					done()
					return waited
				}
				turn(c.before)
				time.Sleep(c.idle)
				g.yield = func() time.Duration { return c.wanted }
				turn(10 * time.Millisecond)
				if c.rest > 0 {
					asked := time.Now()
					done, err := g.turn(t.Context(), "acme")
					require.NoError(t, err)
					done()
					require.Zero(t, time.Since(asked), "another tenant waits for nobody's rest")
					left, cancel := context.WithTimeout(t.Context(), c.rest/2)
					_, err = g.turn(left, "mallory")
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded, "who waits for its rest can be ended")
					require.Equal(t, c.rest-c.rest/2, turn(0))
					return
				}
				require.Zero(t, turn(0))
			})
		})
	}
}

// A rest is no longer than a second, and a turn that is waited for in vain leaves nothing.
func TestGuestsAreGivenTurnsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(newProcessors(2), newWork(1), func(string) bool { return true })
		g.yield = func() time.Duration { return time.Second }
		done, err := g.all.take(t.Context(), "mallory") // a large body of its own
		require.NoError(t, err)
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = g.turn(gone, "mallory")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		done()
		done, err = g.turn(t.Context(), "mallory")
		require.NoError(t, err)
		time.Sleep(time.Hour)
		done()
		asked := time.Now()
		done, err = g.turn(t.Context(), "mallory")
		require.NoError(t, err)
		done()
		require.Equal(t, mostRest, time.Since(asked))
		synctest.Wait()
		require.Empty(t, g.own.tenants)
		require.Empty(t, g.all.tenants)
	})
}

// A tenant is alone when no other one asked for anything in some time.
func TestTenantsBesides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUnderway()
		enter := func(tenant string) (leave func()) {
			_, leave, err := u.enter(tenant, 0, 0)
			require.NoError(t, err)
			return leave
		}
		require.False(t, u.besides("acme"))
		enter("acme")()
		enter("acme")()
		require.False(t, u.besides("acme"))
		require.True(t, u.besides("beta"))
		leave := enter("beta")
		enter("acme")()
		time.Sleep(lately)
		require.True(t, u.besides("acme"), "it is still answered")
		require.False(t, u.besides("beta"))
		leave()
		require.False(t, u.besides("acme"))
		enter("beta")()
		require.True(t, u.besides("acme"), "it was there a moment ago")
	})
}
