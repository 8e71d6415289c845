package server

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// What the requests of a tenant may take of a server at once.
const (
	maxRequests  = 4096     // where its quota does not say; streams of events are requests
	maxBodyBytes = 64 << 20 // of bodies that are held in memory
)

// controlRequests is how many requests a tenant may have under way beyond its quota, if
// they control its runs.
const controlRequests = 64

// atOnce returns how many requests the caller's tenant may have under way, this one
// included.
func (r *Route) atOnce(c *Caller) int64 {
	most := cmp.Or(c.Info.Quota.Requests, maxRequests)
	if r.Control {
		most += controlRequests
	}
	return most
}

// underway are the requests of tenants that are being answered.
type underway struct {
	mu      sync.Mutex
	tenants map[string]*load
	latest  [2]arrival // of two tenants, the later one first
}

// An arrival is when a tenant's last request came.
type arrival struct {
	tenant string
	at     time.Time
}

// lately is for how long a tenant that asks for nothing more is still there: what it asked
// for may go on.
const lately = 10 * time.Second

// A load is what the requests of one tenant take.
type load struct {
	requests int64
	bytes    int64
}

func newUnderway() *underway { return &underway{tenants: map[string]*load{}} }

// enter lets a request of a tenant in that has a body of so many bytes, until it
// leaves. most is the tenant's quota; 0 is the default. read is called when the body is
// not in memory any more; it may be called before leave, or not at all.
func (u *underway) enter(tenant string, most, bytes int64) (read, leave func(), err error) {
	most = cmp.Or(most, maxRequests)
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.tenants[tenant]
	if l == nil {
		l = &load{}
		u.tenants[tenant] = l
	}
	switch {
	case l.requests >= most:
		return nil, nil, quotaProblem("concurrent_requests", time.Second, "%d requests of this tenant are under way, streams of events included; end some of them", l.requests)
	case l.requests > 0 && l.bytes+bytes > maxBodyBytes:
		return nil, nil, quotaProblem("body_bytes", time.Second, "requests of this tenant with bodies of %d bytes are under way, of %d; wait until some of them are answered", l.bytes, maxBodyBytes)
	}
	l.requests++
	l.bytes += bytes
	if u.latest[0].tenant != tenant {
		u.latest[1] = u.latest[0]
	}
	u.latest[0] = arrival{tenant, time.Now()}
	read = sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		l.bytes -= bytes
	})
	return read, func() {
		read()
		u.mu.Lock()
		defer u.mu.Unlock()
		if l.requests--; l.requests == 0 {
			delete(u.tenants, tenant)
		}
	}, nil
}

// besides reports whether there is another tenant: it asks for something, or did so lately.
func (u *underway) besides(tenant string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	others := len(u.tenants)
	if u.tenants[tenant] != nil {
		others--
	}
	last := u.latest[0]
	if last.tenant == tenant {
		last = u.latest[1]
	}
	return others > 0 || time.Since(last.at) < lately
}

// held is how much of a request's body a route may come to hold in memory: what the
// request says, or else all that is allowed.
func held(req *http.Request, r *Route, c *Caller) int64 {
	switch n := req.ContentLength; {
	case r.Streamed || req.Body == nil || req.Body == http.NoBody:
		return 0
	case n >= 0:
		return min(n, r.most(c))
	default:
		return r.most(c)
	}
}
