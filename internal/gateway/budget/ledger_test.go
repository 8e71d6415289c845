package budget

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/gateway/price"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// noon is a Tuesday.
var noon = time.Date(2026, 11, 24, 12, 30, 0, 0, time.UTC)

// open returns a ledger whose clock shows the time at.
func open(t *testing.T, path string, at *time.Time) *Ledger {
	l, err := Open(path, quiet)
	require.NoError(t, err)
	l.now = func() time.Time { return *at }
	return l
}

func TestPeriods(t *testing.T) {
	for p, want := range map[Period][2]string{
		Hour: {"2026-11-24 12:00", "2026-11-24 13:00"}, Day: {"2026-11-24 00:00", "2026-11-25 00:00"},
		Week: {"2026-11-23 00:00", "2026-11-30 00:00"}, Month: {"2026-11-01 00:00", "2026-12-01 00:00"},
	} {
		const layout = "2006-01-02 15:04"
		east := noon.In(time.FixedZone("east", 13*3600)) // in this zone, it is already Wednesday
		require.Equal(t, want, [2]string{p.Start(east).Format(layout), p.End(east).Format(layout)}, p)
	}
	sunday := time.Date(2026, 11, 29, 23, 0, 0, 0, time.UTC)
	require.Equal(t, Week.Start(noon), Week.Start(sunday))
}

func TestBudget(t *testing.T) {
	now := noon
	l := open(t, "", &now)
	limits := Limits{Tokens: 100, Per: Day}
	r, err := l.Begin("ann", limits, Amount{Tokens: 90})
	require.NoError(t, err)
	second, err := l.Begin("ann", limits, Amount{Tokens: 90})
	require.NoError(t, err, "something is left")
	_, err = l.Begin("ann", limits, Amount{Tokens: 1})
	require.EqualError(
		t,
		err,
		"the key ann has spent its budget of 100 tokens a day; the next one begins at 2026-11-25 00:00 UTC",
	)
	_, err = l.Begin("bob", limits, Amount{Tokens: 1})
	require.NoError(t, err, "another key has its own budget")
	r.Settle(Amount{Tokens: 5})
	second.Settle(Amount{})
	r, err = l.Begin("ann", limits, Amount{Tokens: 1})
	require.NoError(t, err, "reservations are released")
	r.Settle(Amount{Tokens: 1 << 62})
	_, err = l.Begin("ann", limits, Amount{})
	require.Error(t, err)
	now = now.AddDate(0, 0, 1)
	_, err = l.Begin("ann", limits, Amount{})
	require.NoError(t, err, "the next day has a new budget")

	_, err = l.Begin("eve", Limits{Cost: 0}, Amount{Cost: 1})
	require.NoError(t, err)
	_, err = l.Begin("eve", Limits{Cost: 1}, Amount{})
	require.ErrorContains(t, err, "a month")
}

// TestOverflow checks that sums do not overflow, so that a spent budget stays spent whatever is added.
func TestOverflow(t *testing.T) {
	now := noon
	l := open(t, "", &now)
	limits := Limits{Tokens: 10, Cost: 10}
	for range 5000 {
		r, err := l.Begin("a", Limits{}, Amount{Tokens: 1 << 62, Cost: 1 << 62})
		require.NoError(t, err)
		r.Settle(Amount{Tokens: 1<<63 - 1, Cost: 1<<63 - 1})
	}
	_, err := l.Begin("a", limits, Amount{})
	require.ErrorContains(t, err, "spent its budget")
	r, err := l.Begin("b", Limits{}, Amount{})
	require.NoError(t, err)
	r.Settle(Amount{Tokens: -100, Cost: -100})
	require.Equal(t, Amount{}, l.keys["b"].spent)
}

func TestRate(t *testing.T) {
	now := noon
	l := open(t, "", &now)
	limits := Limits{RequestsPerMinute: 2}
	for range 2 {
		err := l.Allow("ann", limits)
		require.NoError(t, err)
	}
	for range 3 {
		err := l.Allow("ann", limits)
		var fast *RateError
		require.ErrorAs(t, err, &fast)
		require.Equal(t, 30*time.Second, fast.RetryAfter, "rejected requests do not count")
	}
	now = now.Add(31 * time.Second)
	err := l.Allow("ann", limits)
	require.NoError(t, err)
	err = l.Allow("ann", Limits{RequestsPerMinute: 5})
	require.NoError(t, err, "a new limit is active at once")
}

func TestConcurrent(t *testing.T) {
	now := noon
	l := open(t, "", &now)
	var wait sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for range 50 {
		wait.Go(func() {
			if _, err := l.Begin("ann", Limits{Tokens: 100}, Amount{Tokens: 10}); err == nil {
				mu.Lock()
				admitted++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.Equal(t, 10, admitted)
}

func TestRestart(t *testing.T) {
	now := noon
	path := filepath.Join(t.TempDir(), "usage.json")
	l := open(t, path, &now)
	r, err := l.Begin("ann", Limits{Cost: price.AmountOf(1), Per: Day}, Amount{})
	require.NoError(t, err)
	r.Settle(Amount{Tokens: 7, Cost: price.AmountOf(1.25)})
	require.NoError(t, l.Close())
	list, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, []Use{{Key: "ann", Per: Day, Start: Day.Start(noon), Requests: 1, Tokens: 7, Cost: 1.25}}, list)
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Equal(t, []string{path}, names)

	l = open(t, path, &now)
	_, err = l.Begin("ann", Limits{Cost: price.AmountOf(1), Per: Day}, Amount{})
	require.ErrorContains(t, err, "budget of 1 a day")
	_, err = l.Begin("ann", Limits{Cost: price.AmountOf(1), Per: Hour}, Amount{})
	require.NoError(t, err, "the use before this hour does not count in it")
	require.NoError(t, l.Close())
}

// TestSavedSoon checks that the file is written while the ledger is open.
func TestSavedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.json")
	l, err := Open(path, quiet)
	require.NoError(t, err)
	_, err = l.Begin("ann", Limits{}, Amount{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		list, err := Read(path)
		return err == nil && len(list) == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, l.Close())
}

// TestBadFile checks that Open rejects a file that it cannot read, and does not treat it as an empty
// one.
func TestBadFile(t *testing.T) {
	for name, text := range map[string]string{
		"cut":      `{"version":1,"keys":[{"key":"a"`,
		"empty":    "",
		"version":  `{"version":2}`,
		"period":   `{"version":1,"keys":[{"key":"a","per":"year"}]}`,
		"negative": `{"version":1,"keys":[{"key":"a","per":"day","tokens":-5}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "usage.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := Open(path, quiet)
			require.ErrorContains(t, err, path)
		})
	}
	_, err := Open(filepath.Join(t.TempDir(), "none", "usage.json"), quiet)
	require.Error(t, err, "a file that cannot be written is noticed at once")
}
