// Package admission decides when the work of a request may run, so that tenants of a server do not
// delay each other.
//
// A [Controller] has a method for each kind of work, such as [Controller.Read] and
// [Controller.Build]. Most of these methods wait for a slot of a [fairshare.Semaphore]. They fail
// with a [*QuotaError] if too many pieces of the tenant's work wait already, and with the cause of
// their context if it is done first. CPU-bound work is also charged to the tenant's budget: a
// tenant that has used up its budget is delayed while others want the processors. Requests in
// flight, responses in memory and rejections have limits of their own.
//
// The package does not depend on routes, the store or runs.
package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/fairshare"
)

// A tenant's CPU budget for each of the processors that it may use at once: a fraction of the
// processor's time, and a burst. A tenant may use half of the processors, but at least one.
const (
	cpuShare = 0.25
	cpuBurst = 250 * time.Millisecond
)

// MaxDelay caps one delay of a tenant that exceeds its CPU budget or its rate of rejections.
const MaxDelay = time.Second

// queueRetry is the Retry-After of a request whose tenant's queue is full, or whose tenant has too
// many uploads in progress.
const queueRetry = 5 * time.Second

// A Controller decides when the work of one server's tenants may run.
type Controller struct {
	InFlight   *InFlight
	endUsers   *InFlight // by tenant and subject
	Responses  *Responses
	Rejections *Rejections

	requests  *fairshare.RateLimiter
	controls  *fairshare.RateLimiter
	userRates *fairshare.RateLimiter // by tenant and subject

	// processors has slots for CPU-bound work: time slices of guests, and parsing bodies.
	processors *fairshare.Semaphore
	cpu        *fairshare.Budget

	background *fairshare.Semaphore // time slices of background work

	lists  *fairshare.Semaphore // requests that only read
	states *fairshare.Semaphore // requests for the state of a run
	bodies *fairshare.Semaphore // large bodies that are parsed
	inputs *fairshare.Semaphore // large inputs that are written to the journal

	uploads   *fairshare.Semaphore // uploads that are received or checked
	checks    *fairshare.Semaphore // modules and agents that are checked
	checkTime *fairshare.Budget
	compiles  *fairshare.Semaphore
	builds    *fairshare.Semaphore // agents that are built
	loads     *fairshare.Semaphore // modules that are loaded

	yield func() time.Duration // replaced in tests
}

// New returns a controller that shares the given number of processors. now is the clock of the rate
// limits. When draining is closed, delayed rejections are sent at once.
func New(processors int, now func() time.Time, draining <-chan struct{}) *Controller {
	perTenant := max(1, processors/2)
	return &Controller{
		yield:      yield,
		InFlight:   newInFlight(),
		endUsers:   newInFlight(),
		Responses:  newResponses(account.Process().Limit()),
		Rejections: newRejections(draining),
		requests:   fairshare.NewRateLimiter(now),
		controls:   fairshare.NewRateLimiter(now),
		userRates:  fairshare.NewRateLimiter(now),
		processors: fairshare.NewSemaphore(processors, perTenant, fairshare.Unlimited),
		cpu:        fairshare.NewBudget(cpuShare*float64(perTenant), cpuBurst*time.Duration(perTenant), MaxDelay),
		background: fairshare.NewSemaphore(fairshare.Unlimited, 1, fairshare.Unlimited),
		lists:      fairshare.NewSemaphore(maxLists, 1, maxQueuedReads),
		states:     fairshare.NewSemaphore(maxStates, 1, maxQueuedReads),
		bodies:     fairshare.NewSemaphore(fairshare.Unlimited, 1, maxQueuedBodies),
		inputs:     fairshare.NewSemaphore(fairshare.Unlimited, 1, maxQueuedBodies),
		uploads:    fairshare.NewSemaphore(fairshare.Unlimited, MaxUploads, 0),
		checks:     fairshare.NewSemaphore(fairshare.Unlimited, 1, maxQueuedChecks),
		checkTime:  fairshare.NewBudget(checkShare, checkBurst, maxCheckDelay),
		compiles:   fairshare.NewSemaphore(maxCompiles, maxCompiles-1, maxQueuedChecks),
		builds:     fairshare.NewSemaphore(maxBuilds, maxBuildsPerTenant, maxQueuedBuilds),
		loads:      fairshare.NewSemaphore(fairshare.Unlimited, maxLoadsPerTenant, fairshare.Unlimited),
	}
}

// A QuotaError reports that a tenant has reached a limit on this server.
type QuotaError struct {
	Quota      string
	RetryAfter time.Duration
	Reason     string // the limit, and advice
}

func (e *QuotaError) Error() string { return e.Reason }

// acquire waits for a slot of s, which release returns. It fails with a [*QuotaError] if the
// tenant's queue is full, and with the cause of ctx if ctx is done first. work names the queued
// work in the error.
func acquire(
	ctx context.Context,
	s *fairshare.Semaphore,
	tenant, work string,
) (release func(time.Duration), err error) {
	release, err = s.Acquire(ctx, tenant)
	if full := (*fairshare.QueueFullError)(nil); errors.As(err, &full) {
		return nil, &QuotaError{
			work,
			queueRetry,
			fmt.Sprintf("%d %s of this tenant are waiting; try again when some of them are done", full.Queue, work),
		}
	}
	return release, err
}

// run waits for a slot of s and calls fn. It charges the time of fn to the tenant's CPU budget, even
// if fn panics.
func (c *Controller) run(ctx context.Context, s *fairshare.Semaphore, tenant, work string, fn func() error) error {
	release, err := acquire(ctx, s, tenant, work)
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() { release(charge(c.cpu, tenant, time.Since(began), c.contended)) }()
	return fn()
}
