package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who brings modules and agents without end has a quarter of the time; others do not wait.
func TestPacedTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBringing(nil)
		turn := func(tenant string, took time.Duration) (waited time.Duration) {
			asked := time.Now()
			done, err := p.take(t.Context(), tenant)
			require.NoError(t, err)
			waited = time.Since(asked)
			time.Sleep(took)
			done()
			return waited
		}
		require.Zero(t, turn("mallory", 2*time.Second))
		require.Zero(t, turn("mallory", 3*time.Second), "its burst was not used up")
		require.Zero(t, turn("acme", time.Second))
		began := time.Now()
		for range 100 {
			turn("mallory", 100*time.Millisecond)
		}
		require.InDelta(t, 36, time.Since(began).Seconds(), 1, "10 seconds, and three times as much rest, but for the second that was left of its burst")
		require.Equal(t, 300*time.Millisecond, turn("mallory", time.Hour))
		require.Equal(t, mostRest, turn("mallory", 0))
		time.Sleep(20 * time.Second)
		require.Zero(t, turn("mallory", 5*time.Second))
		require.Zero(t, turn("mallory", time.Hour))
		p.wanted = func(string) bool { return false } // who is alone
		require.Equal(t, mostRest, turn("mallory", time.Hour))
		require.Zero(t, turn("mallory", 0))
		synctest.Wait()
		require.Empty(t, p.own.tenants)
	})
}

// Where there are more processors a tenant has more of them.
func TestPaceOfSeveralTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for each, rest := range map[int]time.Duration{1: 400 * time.Millisecond, 4: 100 * time.Millisecond} {
			p := newPaces(each, time.Second)
			require.Zero(t, p.rest("mallory", time.Duration(each)*time.Second, nil))
			require.Equal(t, rest, p.rest("mallory", 100*time.Millisecond, nil))
		}
	})
}

func TestPacesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPaces(1, time.Second)
		for i := range maxRates {
			p.rest(fmt.Sprint(i), time.Second, nil)
		}
		time.Sleep(paceShare*time.Second + 1)
		require.Zero(t, p.rest("another", 0, nil))
		require.Len(t, p.tenants, 1)
	})
}
