package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeasesAfterAClockJump checks that expired leases are not trusted for the duration of a lease
// after the database's clock jumps forward, so that live servers have time for another heartbeat.
func TestLeasesAfterAClockJump(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second
	begin := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	type look struct {
		remote, local time.Duration // since the start
		want          bool
	}
	for name, looks := range map[string][]look{
		"it goes on":        {{0, 0, true}, {3 * time.Second, 3 * time.Second, true}, {6 * time.Second, 7 * time.Second, true}},
		"who begins":        {{time.Hour, 0, true}},
		"forward":           {{0, 0, true}, {time.Hour, 3 * time.Second, false}, {time.Hour + 3*time.Second, 6 * time.Second, false}, {time.Hour + 15*time.Second, 18 * time.Second, true}},
		"back":              {{0, 0, true}, {-time.Hour, 3 * time.Second, true}, {3*time.Second - time.Hour, 6 * time.Second, true}},
		"back, and forward": {{0, 0, true}, {-time.Hour, 3 * time.Second, true}, {6 * time.Second, 6 * time.Second, false}, {21 * time.Second, 21 * time.Second, true}},
		"it was slow":       {{0, 0, true}, {time.Minute, time.Minute, true}},
	} {
		clock := &leaseClock{}
		for i, l := range looks {
			require.Equal(t, l.want, clock.trust(begin.Add(l.remote), begin.Add(l.local), lease), "%s: look %d", name, i+1)
		}
	}
}
