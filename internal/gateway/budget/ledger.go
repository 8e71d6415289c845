// Package budget counts the requests, tokens and money that keys of a gateway spend, and rejects requests
// of keys that have spent their budgets.
//
// A request reserves an estimate before it is sent, and settles it with what it used. It is admitted while something
// is left of the budget after all reservations, so that a key exceeds its budget by at most one request and what
// requests in progress use beyond their estimates. The sums are stored in a file. It is written within a second of a
// change, so that a crash loses at most one second and the requests in progress. One process at a time may use a
// file.
package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/agent-runner/agent-runner/internal/gateway/price"
)

// Limits are the limits of one key. Zero values are no limits.
type Limits struct {
	RequestsPerMinute int // the rate limit, which is also the size of a burst
	Tokens            int64
	Cost              price.Amount
	Per               Period // of Tokens and Cost; the default is Month
}

// An Amount is the tokens that requests use, and their cost.
type Amount struct {
	Tokens int64
	Cost   price.Amount
}

// maxTokens limits the tokens of one request, so that sums do not overflow.
const maxTokens = math.MaxInt64 / 1024

// plus returns the sum of a and b. A sum that is too large becomes the largest number.
func (a Amount) plus(b Amount) Amount {
	return Amount{add(a.Tokens, min(b.Tokens, maxTokens)), price.Amount(add(int64(a.Cost), int64(b.Cost)))}
}

func (a Amount) minus(b Amount) Amount { return Amount{a.Tokens - b.Tokens, a.Cost - b.Cost} }

func add(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64/2 {
		return a
	}
	return a + b
}

// A RateError rejects a request because its key has sent too many in a short time.
type RateError struct {
	Key        string
	PerMinute  int
	RetryAfter time.Duration
}

// Error names the limit.
func (e *RateError) Error() string {
	return fmt.Sprintf("the key %s has sent %d requests a minute, its limit; try again in %v", e.Key, e.PerMinute,
		e.RetryAfter.Round(time.Second))
}

// A SpentError rejects a request because its key has spent its budget.
type SpentError struct {
	Key   string
	Limit string // such as "1000000 tokens a day"
	Until time.Time
}

// Error names the budget, and when the next one begins.
func (e *SpentError) Error() string {
	return fmt.Sprintf("the key %s has spent its budget of %s; the next one begins at %s", e.Key, e.Limit,
		e.Until.Format("2006-01-02 15:04 UTC"))
}

// A Ledger counts what keys spend. It is safe for concurrent use.
type Ledger struct {
	path string // the path of the file; empty if the sums are only in memory
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	keys    map[string]*sums
	changed bool

	end           sync.Once     // closes stop
	stop, stopped chan struct{} // closing stop ends the goroutine that writes the file, which then closes stopped
}

// sums are the sums of one key.
type sums struct {
	start    time.Time // the beginning of the period
	per      Period
	requests int64
	spent    Amount
	reserved Amount
	rate     *rate.Limiter
}

// Open returns a ledger that stores its sums in a file, or only in memory if path is empty. The file need not exist.
// Open returns an error if it cannot read or write the file, or if the file is malformed. The caller closes the
// ledger.
func Open(path string, log *slog.Logger) (*Ledger, error) {
	l := &Ledger{path: path, log: log, now: time.Now, keys: map[string]*sums{}}
	if path == "" {
		return l, nil
	}
	list, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, u := range list {
		l.keys[u.Key] = &sums{start: u.Start, per: u.Per, requests: u.Requests,
			spent: Amount{u.Tokens, price.AmountOf(u.Cost)}}
	}
	l.changed = true // write the file now, so that Open fails if it cannot be written
	if err := l.save(); err != nil {
		return nil, err
	}
	l.stop, l.stopped = make(chan struct{}), make(chan struct{})
	go l.saveOften()
	return l, nil
}

// Allow counts a request of a key against its rate limit. The error is a *RateError.
func (l *Ledger) Allow(key string, limits Limits) error {
	if limits.RequestsPerMinute <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	s := l.sumsOf(key, Period(limits.Per.Name()), now)
	if s.rate == nil || s.rate.Burst() != limits.RequestsPerMinute {
		s.rate = rate.NewLimiter(rate.Limit(limits.RequestsPerMinute)/60, limits.RequestsPerMinute)
	}
	if r := s.rate.ReserveN(now, 1); r.DelayFrom(now) > 0 {
		wait := r.DelayFrom(now)
		r.CancelAt(now)
		return &RateError{Key: key, PerMinute: limits.RequestsPerMinute, RetryAfter: wait}
	}
	return nil
}

// Begin reserves an estimate of what a request of a key uses, if something of the key's budget is left. The
// error is a *SpentError. The caller settles the reservation.
func (l *Ledger) Begin(key string, limits Limits, estimate Amount) (*Reservation, error) {
	limits.Per = Period(limits.Per.Name())
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	s := l.sumsOf(key, limits.Per, now)
	if err := s.admit(key, limits, now); err != nil {
		return nil, err
	}
	s.requests++
	s.reserved = s.reserved.plus(estimate)
	l.changed = true
	return &Reservation{ledger: l, sums: s, estimate: estimate}, nil
}

// sumsOf returns the sums of a key in the current period.
func (l *Ledger) sumsOf(key string, per Period, now time.Time) *sums {
	s := l.keys[key]
	if s == nil {
		s = &sums{}
		l.keys[key] = s
	}
	if start := per.Start(now); s.per != per || s.start.Before(start) {
		if s.start.Before(start) {
			s.spent, s.requests = Amount{}, 0
		}
		s.start, s.per = start, per
	}
	return s
}

func (s *sums) admit(key string, limits Limits, now time.Time) error {
	used := s.spent.plus(s.reserved)
	spent := ""
	switch {
	case limits.Tokens > 0 && used.Tokens >= limits.Tokens:
		spent = fmt.Sprintf("%d tokens a %s", limits.Tokens, limits.Per)
	case limits.Cost > 0 && used.Cost >= limits.Cost:
		spent = fmt.Sprintf("%v a %s", limits.Cost.Units(), limits.Per)
	}
	if spent != "" {
		return &SpentError{Key: key, Limit: spent, Until: limits.Per.End(now)}
	}
	return nil
}

// A Reservation is the amount that a request has reserved in a ledger.
type Reservation struct {
	ledger   *Ledger
	sums     *sums
	estimate Amount
}

// Settle replaces the estimate with what the request used. It must be called once.
func (r *Reservation) Settle(used Amount) {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	r.sums.reserved = r.sums.reserved.minus(r.estimate)
	r.sums.spent = r.sums.spent.plus(used)
	l.changed = true
}

// A Use is what a key has used in a period.
type Use struct {
	Key      string    `json:"key"`
	Per      Period    `json:"per"`
	Start    time.Time `json:"start"` // of the period
	Requests int64     `json:"requests"`
	Tokens   int64     `json:"tokens"`
	Cost     float64   `json:"cost"`
}

// uses returns what keys have used, sorted by key. The caller holds the lock.
func (l *Ledger) uses() []Use {
	out := make([]Use, 0, len(l.keys))
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		s := l.keys[key]
		out = append(out, Use{Key: key, Per: s.per, Start: s.start, Requests: s.requests,
			Tokens: s.spent.Tokens, Cost: s.spent.Cost.Units()})
	}
	return out
}

// saveInterval is the time between two writes of the file.
const saveInterval = time.Second

func (l *Ledger) saveOften() {
	defer close(l.stopped)
	failing := false
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(saveInterval):
		}
		err := l.save()
		if err != nil && !failing {
			l.log.Error("what keys have used cannot be stored", "error", err)
		}
		failing = err != nil
	}
}

// Close stops writing the file periodically, and writes it a last time. It returns the error of writing. It has no
// effect on a nil ledger or one without a file.
func (l *Ledger) Close() error {
	if l == nil || l.path == "" {
		return nil
	}
	l.end.Do(func() { close(l.stop) })
	<-l.stopped
	return l.save()
}

// A document is the content of a ledger's file.
type document struct {
	Version int   `json:"version"`
	Keys    []Use `json:"keys"`
}

// Read returns what keys have used according to the file of a ledger, sorted by key. It returns an error if the file
// cannot be read, is malformed, or has a version other than 1.
func Read(path string) ([]Use, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("%s is not a file of used budgets: %w; restore it, or remove it to begin anew", path, err)
	}
	if d.Version != 1 {
		return nil, fmt.Errorf("%s has version %d, and this program reads version 1", path, d.Version)
	}
	for i := range d.Keys {
		if u := &d.Keys[i]; !u.Per.valid() || u.Tokens < 0 || u.Requests < 0 || !(u.Cost >= 0) {
			return nil, fmt.Errorf("%s: the entry of the key %.100q is not valid; restore the file, or remove it to begin anew",
				path, u.Key)
		}
	}
	return d.Keys, nil
}

// save writes the file if the sums have changed.
func (l *Ledger) save() error {
	l.mu.Lock()
	changed := l.changed
	l.changed = false
	d := document{Version: 1, Keys: l.uses()}
	l.mu.Unlock()
	if !changed {
		return nil
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = replace(l.path, append(b, '\n'))
	}
	if err != nil {
		l.mu.Lock()
		l.changed = true
		l.mu.Unlock()
	}
	return err
}

// replace writes a file atomically: after a crash the file has its old content or b.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
