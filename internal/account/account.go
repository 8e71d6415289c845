// Package account counts the bytes that a process holds for others, in a tree of
// accounts: the process, its tenants, their runs, and parts of a run.
//
// A reservation on an account is a reservation on all accounts above it. Each
// account has a limit. A caller that can wait for memory calls [Account.Reserve],
// which blocks while bytes that drain by themselves fill the account. A caller that
// cannot wait calls [Account.TryReserve], which fails with a [*LimitError].
//
// An account takes memory from its parent in chunks, so that most reservations
// touch one account only.
//
// Some memory is not counted, since another limit bounds it:
//
//	first 32 KiB of each hook call, stream and exchange   calls in progress are bounded by the memory of their instances
//	a reply or input while it is encoded, before it is    reply_bytes and input_bytes, 8 MiB, for each call that is
//	  counted                                             encoding at the moment: about as many as there are processors
//	a response of an MCP server while it is read          16 MiB a call, by default; results are then cut to 1 MiB of text
//	                                                      and 4 MiB of media, and counted
//	results of built-in tools                             64 KiB a call, before they are counted
//	the timeline of a run                                 5,000 spans
//	messages that an AG-UI encoder keeps                  4 MiB a run
//	chunks between a stream and its reader                1 MiB or 256 chunks for each open stream
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
)

// chunk is the unit in which an account reserves memory from its parent.
const chunk = 32 << 10

// A Level says what an account is for. Errors name it.
type Level string

// The levels of the tree.
const (
	LevelProcess Level = "process"
	LevelTenant  Level = "tenant"
	LevelRun     Level = "run"
	LevelPending Level = "pending" // what a run has made and the journal and the caller have not taken yet
)

// ErrClosed is the error of a reservation on a closed account.
var ErrClosed = errors.New("account: reserve: the account is closed")

// A LimitError reports a reservation that does not fit an account.
type LimitError struct {
	Level Level  // of the account that is full
	Name  string // of the account that is full
	Limit int64
	Used  int64 // before the reservation
	Want  int64
}

// Error names the full account and its limit, and says what to do.
func (e *LimitError) Error() string {
	what := map[Level]string{
		LevelProcess: "the process holds", LevelTenant: "the tenant's runs hold",
		LevelRun: "the run holds", LevelPending: "the run's pending events and changes hold",
	}[e.Level]
	do := "keep less: shorter messages, results and values"
	if e.Level == LevelTenant || e.Level == LevelProcess {
		do = "retry when other runs have ended, or raise the limit"
	}
	return fmt.Sprintf("memory limit: %s %d of at most %d bytes, and %d more do not fit; %s", what, e.Used, e.Limit, e.Want, do)
}

// A class says how the bytes of an account come free again.
type class int

const (
	sticky   class = iota // the holder releases them when it likes
	draining              // they are released soon, without another reservation
	classes
)

// A mode says what a reservation does that does not fit.
type mode int

const (
	try    mode = iota // fail
	polite             // fail, and also while others wait
	wait               // wait
	force              // go above the limit
)

// An Account counts bytes. A nil Account counts nothing and has no limit. All
// methods may be called concurrently.
type Account struct {
	level  Level
	name   string
	parent *Account
	class  class // of direct reservations

	peak atomic.Int64
	sum  atomic.Int64 // of used, for readers without the lock

	mu       sync.Mutex
	limit    int64 // unlimited if zero
	used     [classes]int64
	inflight [classes]int64 // part of used that the parent has not granted yet
	held     [classes]int64 // reserved from the parent
	waiters  []*waiter
	children map[*Account]struct{}
	evict    context.CancelCauseFunc
	closed   bool
	excess   stopwatch
}

// A waiter is a blocked reservation.
type waiter struct {
	class class
	n     int64
	done  chan error // buffered
}

// New returns an account below parent, which may be nil. A limit of zero means
// that only the accounts above limit it.
func New(level Level, name string, parent *Account, limit int64) *Account {
	a := &Account{level: level, name: name, parent: parent, limit: limit}
	parent.adopt(a)
	return a
}

// NewDraining returns an account whose bytes are all released without another
// reservation on the tree: a queue that a goroutine empties. Reservations that
// block wait for such bytes only.
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

// Level returns what the account is for.
func (a *Account) Level() Level {
	if a == nil {
		return ""
	}
	return a.level
}

// Name returns the name that the account was made with.
func (a *Account) Name() string {
	if a == nil {
		return ""
	}
	return a.name
}

// Parent returns the account above.
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
	return a.sum.Load()
}

// Peak returns the largest value that Used had.
func (a *Account) Peak() int64 {
	if a == nil {
		return 0
	}
	return a.peak.Load()
}

// Limit returns the limit, zero if there is none.
func (a *Account) Limit() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// SetLimit changes the limit. Bytes that are reserved already stay reserved.
func (a *Account) SetLimit(limit int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = limit
	a.wake()
}

// TryReserve reserves n bytes or fails with a [*LimitError].
func (a *Account) TryReserve(n int64) error {
	if a == nil || n <= 0 {
		return nil
	}
	return a.reserve(context.Background(), a.class, n, try)
}

// Reserve reserves n bytes. It blocks while they do not fit but will once draining
// bytes are released, and fails with a [*LimitError] when they will not, or with
// the cause of ctx.
func (a *Account) Reserve(ctx context.Context, n int64) error {
	if a == nil || n <= 0 {
		return nil
	}
	return a.reserve(ctx, a.class, n, wait)
}

// Force reserves n bytes, even above the limits. It is for the few bytes that a
// run needs in order to end.
func (a *Account) Force(n int64) {
	if a == nil || n <= 0 {
		return
	}
	_ = a.reserve(context.Background(), a.class, n, force)
}

// Release returns n reserved bytes.
func (a *Account) Release(n int64) {
	if a == nil || n <= 0 {
		return
	}
	a.release(a.class, n)
}

// Close returns what is reserved, and fails the reservations that wait. Later
// reservations fail with [ErrClosed]. The accounts below must be closed before.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	held := a.held
	waiters := a.waiters
	a.closed, a.waiters, a.evict = true, nil, nil
	a.used, a.held = [classes]int64{}, [classes]int64{}
	a.sum.Store(0)
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

// reserve reserves n bytes on a and the accounts above it.
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
	if a.closed { // Close has forgotten the claim
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

// borrow reserves n bytes from the parent, a whole number of chunks if they fit.
func (a *Account) borrow(ctx context.Context, c class, n int64, how mode) (int64, error) {
	if whole := (n + chunk - 1) / chunk * chunk; whole > n && a.parent.reserve(ctx, c, whole, polite) == nil {
		return whole, nil
	}
	if err := a.parent.reserve(ctx, c, n, how); err != nil {
		return 0, err
	}
	return n, nil
}

// claim adds n bytes to used. Callers hold the lock, which claim gives up while it
// waits.
func (a *Account) claim(ctx context.Context, c class, n int64, how mode) error {
	switch {
	case a.closed:
		return ErrClosed
	case how == force || a.fits(n) && (how == try || len(a.waiters) == 0):
		a.used[c] += n
		a.wake() // a blocked reservation may have become hopeless
		return nil
	case how != wait || !a.mayFit(n):
		return a.limitError(n)
	}
	w := &waiter{class: c, n: n, done: make(chan error, 1)}
	a.waiters = append(a.waiters, w)
	a.mu.Unlock()
	var err error
	select {
	case err = <-w.done:
		a.mu.Lock()
		if err == nil && a.closed { // Close forgot what wake had granted
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
	return a.limit <= 0 || a.used[sticky]+a.used[draining] <= a.limit-n
}

// mayFit reports whether n more bytes fit once all draining bytes are released.
func (a *Account) mayFit(n int64) bool {
	return a.limit <= 0 || a.used[sticky] <= a.limit-n
}

func (a *Account) limitError(n int64) error {
	return &LimitError{Level: a.level, Name: a.name, Limit: a.limit, Used: a.used[sticky] + a.used[draining], Want: n}
}

// wake grants the blocked reservations that fit now, first come, first served, and
// fails those that cannot fit any more. Callers hold the lock.
func (a *Account) wake() {
	for len(a.waiters) > 0 {
		w := a.waiters[0]
		switch {
		case a.fits(w.n):
			a.used[w.class] += w.n
			w.done <- nil
		case !a.mayFit(w.n):
			w.done <- a.limitError(w.n)
		default:
			return
		}
		a.waiters = slices.Delete(a.waiters, 0, 1)
	}
}

// mark updates what readers see. Callers hold the lock.
func (a *Account) mark() {
	sum := a.used[sticky] + a.used[draining]
	a.sum.Store(sum)
	if sum > a.peak.Load() {
		a.peak.Store(sum)
	}
}

// release returns n bytes to a, and what a does not need any more to its parent.
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
	a.mark()
	a.wake()
	back := a.surplus(c)
	a.mu.Unlock()
	if a.parent != nil {
		a.parent.release(c, back)
	}
}

// surplus takes from held what the account does not need, but for a chunk or two
// while it is in use. Callers hold the lock.
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

// Evictable makes the account one that [Account.Largest] may return. Its Cancel
// calls cancel.
func (a *Account) Evictable(cancel context.CancelCauseFunc) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.evict = cancel
}

// Cancel ends what the account is for, with a cause. It reports whether the account
// is evictable.
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

// Evictables returns the evictable accounts at and below a, the one that uses most
// first.
func (a *Account) Evictables() []*Account {
	all := a.evictables(nil)
	used := make(map[*Account]int64, len(all))
	for _, e := range all {
		used[e] = e.Used()
	}
	slices.SortStableFunc(all, func(x, y *Account) int { return cmp.Compare(used[y], used[x]) })
	return all
}

// Largest returns the evictable account at or below a that uses most, nil if there
// is none.
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
