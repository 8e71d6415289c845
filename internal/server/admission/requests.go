package admission

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// Limits on the concurrent requests of one tenant to one server.
const (
	maxRequests  = 4096     // default of the tenant's quota; event streams count as requests
	MaxBodyBytes = 64 << 20 // for all bodies in memory

	// controlRequests is the number by which a tenant may exceed its quota with requests that control
	// its runs.
	controlRequests = 64
)

// activeFor is the time for which a tenant counts as active after its last request has arrived: the
// request may have started a run.
const activeFor = 10 * time.Second

// InFlight counts each tenant's requests in flight, and the bytes of their bodies in memory.
type InFlight struct {
	mu      sync.Mutex
	tenants map[string]*load
	latest  [2]arrival // last arrivals of two different tenants, the later one first
}

// An arrival records when the last request of a tenant arrived.
type arrival struct {
	tenant string
	at     time.Time
}

// A load counts a tenant's requests in flight, and the bytes of their bodies in memory.
type load struct {
	requests int64
	bytes    int64
}

func newInFlight() *InFlight { return &InFlight{tenants: map[string]*load{}} }

// Enter admits a request of a tenant, whose body takes the given number of bytes in memory. The
// caller calls bodyDone when it has released the body, and leave when the request ends; leave also
// calls bodyDone. quota is the maximum number of requests in flight; 0 selects the default. If
// control is true, the request controls a run, and the maximum is controlRequests higher. Enter
// fails with a [*QuotaError] if the tenant has too many requests in flight, or too many bytes of
// bodies in memory; the tenant's only request may have a body of any size.
func (f *InFlight) Enter(tenant string, quota int64, control bool, bytes int64) (bodyDone, leave func(), err error) {
	limit := cmp.Or(quota, maxRequests)
	if control {
		limit += controlRequests
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.tenants[tenant]
	if l == nil {
		l = &load{}
	}
	switch {
	case l.requests >= limit:
		return nil, nil, &QuotaError{
			"concurrent_requests",
			time.Second,
			fmt.Sprintf("%d requests of this tenant are in flight, event streams included; end some of them", l.requests),
		}
	case l.requests > 0 && l.bytes+bytes > MaxBodyBytes:
		return nil, nil, &QuotaError{
			"body_bytes",
			time.Second,
			fmt.Sprintf(
				"requests of this tenant with bodies of %d bytes are in flight, of at most %d; wait until some of them are answered",
				l.bytes,
				MaxBodyBytes,
			),
		}
	}
	f.tenants[tenant] = l
	l.requests++
	l.bytes += bytes
	if f.latest[0].tenant != tenant {
		f.latest[1] = f.latest[0]
	}
	f.latest[0] = arrival{tenant, time.Now()}
	bodyDone = sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		l.bytes -= bytes
	})
	return bodyDone, func() {
		bodyDone()
		f.mu.Lock()
		defer f.mu.Unlock()
		if l.requests--; l.requests == 0 {
			delete(f.tenants, tenant)
		}
	}, nil
}

// Bounds of the limit on the requests of one end user in flight on one server. The limit is a quarter
// of the tenant's maximum within these bounds.
const (
	maxUserRequests = 64
	minUserRequests = 4
)

// EnterEndUser admits a request with the token of an end user of a tenant, which counts as a request of
// the tenant, too; see [InFlight.Enter]. Without this limit, one end user could use all requests of
// the tenant. The caller calls leave when the request ends. quota is the tenant's quota; 0 selects the
// default. EnterEndUser fails with a [*QuotaError] if the end user has too many requests in flight.
func (c *Controller) EnterEndUser(tenant, subject string, quota int64) (leave func(), err error) {
	limit := min(maxUserRequests, max(minUserRequests, cmp.Or(quota, maxRequests)/4))
	_, leave, err = c.endUsers.Enter(tenant+"\x00"+subject, limit, false, 0)
	if err != nil {
		return nil, &QuotaError{
			"concurrent_requests",
			time.Second,
			fmt.Sprintf("an end user may have %d requests in flight, event streams included; end some of them", limit),
		}
	}
	return leave, nil
}

// minUserRate is the smallest limit on the requests per minute of one end user, unless the limit of the
// tenant is smaller.
const minUserRate = 60

// CheckRate counts a request of a tenant. It fails with a [*QuotaError] if the tenant sends more
// than perMinute requests a minute; 0 means no limit. Requests that control runs, for which control
// is true, are counted separately.
func (c *Controller) CheckRate(tenant string, control bool, perMinute int64) error {
	limiter := c.requests
	if control {
		limiter = c.controls
	}
	if retry, ok := limiter.Allow(tenant, perMinute); !ok {
		return &QuotaError{
			"requests_per_minute",
			retry,
			fmt.Sprintf("tenant %s may send %d requests a minute", tenant, perMinute),
		}
	}
	return nil
}

// CheckEndUserRate counts a request with the token of an end user of a tenant that may send perMinute
// requests a minute; 0 means no limit. The limit of the end user is a quarter of perMinute, but at
// least minUserRate and at most perMinute. If the end user exceeds it, CheckEndUserRate fails with a
// [*QuotaError]. Requests that control runs count, too. Without this check, one end user could send
// all requests of the tenant.
func (c *Controller) CheckEndUserRate(tenant, subject string, perMinute int64) error {
	limit := min(perMinute, max(minUserRate, perMinute/4))
	if retry, ok := c.userRates.Allow(tenant+"\x00"+subject, limit); !ok {
		return &QuotaError{"requests_per_minute", retry, fmt.Sprintf("an end user may send %d requests a minute", limit)}
	}
	return nil
}

// Others reports whether a tenant other than the given one is active: it has a request in flight, or
// sent one in the last 10 s (activeFor).
func (f *InFlight) Others(tenant string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	others := len(f.tenants)
	if f.tenants[tenant] != nil {
		others--
	}
	last := f.latest[0]
	if last.tenant == tenant {
		last = f.latest[1]
	}
	return others > 0 || time.Since(last.at) < activeFor
}

// Load returns the number of a tenant's requests in flight, and the bytes of their bodies in memory.
func (f *InFlight) Load(tenant string) (requests, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.tenants[tenant]; l != nil {
		return l.requests, l.bytes
	}
	return 0, 0
}
