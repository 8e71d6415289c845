// Package account counts the bytes that a process holds on behalf of others, in a tree of accounts:
// the process, its tenants, their runs, and parts of a run.
//
// A reservation on an account is also a reservation on all accounts above it. An account can have a
// limit of its own; without one, only the accounts above limit it. A caller that can wait for memory
// calls [Account.Reserve], which blocks if the bytes will fit once draining accounts release theirs;
// see [NewDraining]. A caller that cannot wait calls [Account.TryReserve], which fails with a
// [*LimitError].
//
// An account reserves memory from its parent in chunks, so that most reservations touch only one
// account.
//
// Some memory is not counted, since another limit bounds it:
//
//	first 32 KiB of each hook call, stream and exchange   calls in progress are bounded by the memory of their instances
//	a reply or input while it is encoded, before it is    reply_bytes and input_bytes, 8 MiB, for each call that is
//	  counted                                             encoding at the moment: about as many as there are processors
//	a response of an MCP server while it is read          16 MiB a call, by default; results are then cut to 1 MiB
//	                                                      of text and 4 MiB of media, and counted
//	results of built-in tools                             64 KiB a call, before they are counted
//	the timeline of a run                                 5,000 spans
//	messages that an AG-UI encoder keeps                  4 MiB a run
//	chunks between a stream and its reader                1 MiB or 256 chunks for each open stream
//	responses of the server                               package admission counts them in accounts of their own
//	text of a chat completion until its run is over       the run's limit of journal bytes
//	linear memory of modules                              the sandbox reserves it before a run begins
package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is the unit in which an account reserves memory from its parent.
const chunk = 32 << 10

// A Level is the kind of holder whose bytes an account counts. Errors contain it.
type Level string

// The levels of the tree.
const (
	LevelProcess Level = "process"
	LevelTenant  Level = "tenant"
	LevelRun     Level = "run"
	LevelPending Level = "pending" // events and changes of a run that the journal or the caller has not consumed
)

// ErrClosed is the error of a reservation on a closed account.
var ErrClosed = errors.New("account: reserve: the account is closed")

// A LimitError reports a reservation that exceeds an account's limit.
type LimitError struct {
	Level Level  // level of the full account
	Name  string // name of the full account
	Limit int64
	Used  int64 // bytes that were reserved before the failed reservation
	Want  int64
}

// Error names the level, use and limit of the full account, and suggests a remedy.
func (e *LimitError) Error() string {
	what := map[Level]string{
		LevelProcess: "the process holds", LevelTenant: "the tenant's runs hold",
		LevelRun: "the run holds", LevelPending: "the run's pending events and changes hold",
	}[e.Level]
	do := "use less: shorter messages, results and values"
	if e.Level == LevelTenant || e.Level == LevelProcess {
		do = "retry when other runs have ended, or raise the limit"
	}
	return fmt.Sprintf(
		"memory limit: %s %d of at most %d bytes, and %d more do not fit; %s",
		what,
		e.Used,
		e.Limit,
		e.Want,
		do,
	)
}

// A class describes how the bytes of an account are released.
type class int

const (
	retained class = iota // released whenever the holder chooses
	draining              // released soon, without another reservation
	classes
)

// A mode selects the behavior of a reservation that does not fit, or that finds others waiting.
type mode int

const (
	try         mode = iota // fail; other waiting reservations do not matter
	nonBlocking             // fail, even if the bytes fit, while other reservations wait
	wait                    // block if the bytes fit once draining bytes are released, or else fail
	force                   // exceed the limit
)

// An Account counts bytes. A nil Account counts nothing and has no limit. All
// methods may be called concurrently.
type Account struct {
	level  Level
	name   string
	parent *Account
	class  class // class of the reservations that are made on this account itself

	limit atomic.Int64 // limit in bytes; zero means no limit; written with mu held

	mu       sync.Mutex
	used     [classes]int64
	peak     int64          // the largest sum of used
	inflight [classes]int64 // bytes of used that the parent has not granted yet
	held     [classes]int64 // bytes reserved from the parent
	waiters  []*waiter
	children map[*Account]struct{}
	evict    context.CancelCauseFunc
	closed   bool
	full     time.Time // when a reservation first did not fit; zero if the last one fitted
	excess   stopwatch
}

// A waiter is a blocked reservation.
type waiter struct {
	class class
	n     int64
	done  chan error // receives the outcome of the reservation; buffered
}

// New returns an account below parent, which may be nil. The limit is in bytes. If it is zero, only
// the accounts above limit the new one.
func New(level Level, name string, parent *Account, limit int64) *Account {
	a := &Account{level: level, name: name, parent: parent}
	a.limit.Store(limit)
	parent.adopt(a)
	return a
}

// NewDraining returns an account like [New]. The caller promises that all its bytes will be released
// without another reservation in the tree: for example, the bytes of a queue that a goroutine
// empties. Blocked reservations wait only for such bytes.
func NewDraining(level Level, name string, parent *Account, limit int64) *Account {
	a := New(level, name, parent, limit)
	a.class = draining
	return a
}

func (a *Account) adopt(child *Account) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.children == nil {
		a.children = map[*Account]struct{}{}
	}
	a.children[child] = struct{}{}
}

// Level returns the account's level.
func (a *Account) Level() Level {
	if a == nil {
		return ""
	}
	return a.level
}

// Name returns the account's name.
func (a *Account) Name() string {
	if a == nil {
		return ""
	}
	return a.name
}

// Parent returns the parent account, or nil.
func (a *Account) Parent() *Account {
	if a == nil {
		return nil
	}
	return a.parent
}

// Used returns the reserved bytes, including those of the accounts below.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used[retained] + a.used[draining]
}

// Peak returns the largest value that Used had.
func (a *Account) Peak() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}

// Limit returns the limit in bytes, or zero if there is none.
func (a *Account) Limit() int64 {
	if a == nil {
		return 0
	}
	return a.limit.Load()
}

// Full returns how long the account, or one above it, has been full: the time since a reservation
// did not fit, if none has fit since. It ignores forced reservations.
func (a *Account) Full() time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	full := a.full
	a.mu.Unlock()
	if full.IsZero() {
		return a.parent.Full()
	}
	return max(time.Since(full), a.parent.Full())
}

// SetLimit changes the limit, in bytes; zero removes it. Existing reservations remain, even above the new limit.
func (a *Account) SetLimit(limit int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit.Store(limit)
	a.wake()
}

// TryReserve reserves n bytes. It fails with a [*LimitError] if they do not fit in the account or in
// one above it.
func (a *Account) TryReserve(n int64) error {
	if a == nil || n <= 0 {
		return nil
	}
	return a.reserve(context.Background(), a.class, n, try)
}

// Reserve reserves n bytes. It blocks while the bytes do not fit but will fit once draining bytes
// are released. It fails with a [*LimitError] if they will not fit, or with the cause of ctx if
// ctx is done while it blocks.
func (a *Account) Reserve(ctx context.Context, n int64) error {
	if a == nil || n <= 0 {
		return nil
	}
	return a.reserve(ctx, a.class, n, wait)
}

// TryReserveInTurn reserves n bytes, or fails with a [*LimitError] if they do not fit or if other
// reservations wait.
func (a *Account) TryReserveInTurn(n int64) error {
	if a == nil || n <= 0 {
		return nil
	}
	return a.reserve(context.Background(), a.class, n, nonBlocking)
}

// Force reserves n bytes, even above the limits. It is meant for the few bytes that a run needs in
// order to end.
func (a *Account) Force(n int64) {
	if a == nil || n <= 0 {
		return
	}
	_ = a.reserve(context.Background(), a.class, n, force)
}

// Release releases n of the reserved bytes.
func (a *Account) Release(n int64) {
	if a == nil || n <= 0 {
		return
	}
	a.release(a.class, n)
}

// Close releases all reservations and fails the blocked ones. Later reservations fail with
// [ErrClosed]. The accounts below must be closed first.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	held := a.held
	waiters := a.waiters
	a.closed, a.waiters, a.evict = true, nil, nil
	a.used, a.held = [classes]int64{}, [classes]int64{}
	a.mu.Unlock()
	for _, w := range waiters {
		w.done <- ErrClosed
	}
	if a.parent == nil {
		return
	}
	for c, n := range held {
		a.parent.release(class(c), n)
	}
	a.parent.mu.Lock()
	delete(a.parent.children, a)
	a.parent.mu.Unlock()
}

// reserve reserves n bytes of class c on the account and on those above it. how selects the
// behavior if the bytes do not fit.
func (a *Account) reserve(ctx context.Context, c class, n int64, how mode) error {
	a.mu.Lock()
	if err := a.claim(ctx, c, n, how); err != nil {
		a.mu.Unlock()
		return err
	}
	if a.parent == nil || a.used[c]-a.inflight[c] <= a.held[c] {
		a.mark()
		a.mu.Unlock()
		return nil
	}
	a.inflight[c] += n
	a.mu.Unlock()
	got, err := a.borrow(ctx, c, n, how)
	a.mu.Lock()
	if a.closed { // Close has released the claim
		a.mu.Unlock()
		a.parent.release(c, got)
		return ErrClosed
	}
	a.inflight[c] -= n
	a.held[c] += got
	if err != nil {
		a.used[c] -= n
	}
	a.mark()
	a.wake()
	back := a.surplus(c)
	a.mu.Unlock()
	a.parent.release(c, back)
	return err
}

// borrow reserves at least n bytes from the parent, and returns their number. It rounds n up to
// whole chunks if those fit and no other reservation waits.
func (a *Account) borrow(ctx context.Context, c class, n int64, how mode) (int64, error) {
	if whole := (n + chunk - 1) / chunk * chunk; whole > n && a.parent.reserve(ctx, c, whole, nonBlocking) == nil {
		return whole, nil
	}
	if err := a.parent.reserve(ctx, c, n, how); err != nil {
		return 0, err
	}
	return n, nil
}

// claim adds n bytes of class c to used. how selects the behavior if they do not fit. The caller
// holds the lock, which claim releases while it waits.
func (a *Account) claim(ctx context.Context, c class, n int64, how mode) error {
	switch {
	case a.closed:
		return ErrClosed
	case how == force || a.fits(n) && (how == try || len(a.waiters) == 0):
		a.used[c] += n
		if how != force {
			a.full = time.Time{}
		}
		a.wake() // a blocked reservation may no longer be able to fit
		return nil
	}
	if a.full.IsZero() {
		a.full = time.Now()
	}
	if how != wait || !a.mayFit(n) {
		return a.limitError(n)
	}
	w := &waiter{class: c, n: n, done: make(chan error, 1)}
	a.waiters = append(a.waiters, w)
	a.mu.Unlock()
	var err error
	select {
	case err = <-w.done:
		a.mu.Lock()
		if err == nil && a.closed { // Close has released the bytes that wake granted
			err = ErrClosed
		}
		return err
	case <-ctx.Done():
	}
	a.mu.Lock()
	if i := slices.Index(a.waiters, w); i >= 0 {
		a.waiters = slices.Delete(a.waiters, i, i+1)
	} else if err = <-w.done; err == nil && !a.closed { // granted at the same time
		a.used[c] -= n
	}
	a.wake()
	return context.Cause(ctx)
}

// fits reports whether n more bytes are within the limit.
func (a *Account) fits(n int64) bool {
	limit := a.limit.Load()
	return limit <= 0 || a.used[retained]+a.used[draining] <= limit-n
}

// mayFit reports whether n more bytes fit once all draining bytes are released.
func (a *Account) mayFit(n int64) bool {
	limit := a.limit.Load()
	return limit <= 0 || a.used[retained] <= limit-n
}

func (a *Account) limitError(n int64) error {
	return &LimitError{
		Level: a.level,
		Name:  a.name,
		Limit: a.limit.Load(),
		Used:  a.used[retained] + a.used[draining],
		Want:  n,
	}
}

// wake grants the blocked reservations that now fit, in FIFO order, and fails those that can no
// longer fit. The caller holds the lock.
func (a *Account) wake() {
	for len(a.waiters) > 0 {
		w := a.waiters[0]
		switch {
		case a.fits(w.n):
			a.used[w.class] += w.n
			a.full = time.Time{}
			w.done <- nil
		case !a.mayFit(w.n):
			w.done <- a.limitError(w.n)
		default:
			return
		}
		a.waiters = slices.Delete(a.waiters, 0, 1)
	}
}

// mark updates peak. The caller holds the lock.
func (a *Account) mark() { a.peak = max(a.peak, a.used[retained]+a.used[draining]) }

// release releases n bytes of class c in the account, and the account's surplus in its parent.
func (a *Account) release(c class, n int64) {
	if n <= 0 {
		return
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return
	}
	a.used[c] -= min(n, a.used[c]-a.inflight[c])
	a.wake()
	back := a.surplus(c)
	a.mu.Unlock()
	if a.parent != nil {
		a.parent.release(c, back)
	}
}

// surplus reduces held by the bytes that the account does not need, and returns their number. While
// the account is in use, it may keep up to two chunks in addition. The caller holds the lock.
func (a *Account) surplus(c class) int64 {
	need := a.used[c] - a.inflight[c]
	spare := a.held[c] - need
	switch {
	case need > 0 && spare <= 2*chunk:
		return 0
	case need > 0:
		spare -= chunk
	}
	a.held[c] -= spare
	return spare
}

// Evictable makes the account a candidate for [Account.Evictables] and [Account.Largest]. Cancel
// then calls cancel.
func (a *Account) Evictable(cancel context.CancelCauseFunc) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.evict = cancel
}

// Cancel cancels the account's owner with a cause. It reports whether the account is evictable.
func (a *Account) Cancel(cause error) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	cancel := a.evict
	a.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(cause)
	return true
}

// Evictables returns the evictable accounts at and below a, sorted by use, largest first.
func (a *Account) Evictables() []*Account {
	all := a.evictables(nil)
	used := make(map[*Account]int64, len(all))
	for _, e := range all {
		used[e] = e.Used()
	}
	slices.SortStableFunc(all, func(x, y *Account) int { return cmp.Compare(used[y], used[x]) })
	return all
}

// Largest returns the evictable account at or below a that uses the most bytes, or nil if there is
// none.
func (a *Account) Largest() *Account {
	var largest *Account
	for _, e := range a.evictables(nil) {
		if largest == nil || e.Used() > largest.Used() {
			largest = e
		}
	}
	return largest
}

func (a *Account) evictables(to []*Account) []*Account {
	if a == nil {
		return to
	}
	a.mu.Lock()
	if a.evict != nil {
		to = append(to, a)
	}
	children := make([]*Account, 0, len(a.children))
	for c := range a.children {
		children = append(children, c)
	}
	a.mu.Unlock()
	for _, c := range children {
		to = c.evictables(to)
	}
	return to
}
