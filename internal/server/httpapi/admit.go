package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
)

// admit counts a request against its tenant's quotas before its body is read. It also rejects
// inputs of runs that are too large, or that arrive while memory is short. The caller calls leave
// when the request ends.
func (rt *Router) admit(c *Caller, r *Route, req *http.Request) (leave func(), err error) {
	if c.Token != nil {
		if err := rt.admission.CheckEndUserRate(c.Key.Tenant, c.Token.Subject, c.Info.Quota.RequestsPerMin); err != nil {
			return nil, err
		}
	}
	if err := rt.admission.CheckRate(c.Key.Tenant, r.Control, c.Info.Quota.RequestsPerMin); err != nil {
		return nil, err
	}
	if err := rt.checkMemory(r); err != nil {
		return nil, err
	}
	if r.Input && req.ContentLength > r.bodyLimit(c) {
		return nil, r.tooLarge(c)
	}
	leaveUser := func() {}
	if c.Token != nil {
		if leaveUser, err = rt.admission.EnterEndUser(c.Key.Tenant, c.Token.Subject, c.Info.Quota.Requests); err != nil {
			return nil, err
		}
	}
	releaseBody, leaveTenant, err := rt.admission.InFlight.Enter(c.Key.Tenant, c.Info.Quota.Requests, r.Control,
		r.bodyBytes(req, c))
	if err != nil {
		leaveUser()
		return nil, err
	}
	c.ReleaseBody = releaseBody
	return func() {
		leaveTenant()
		leaveUser()
	}, nil
}

// checkMemory rejects requests that start or resume runs while memory is short, or while the server
// executes a single run because that run may have ended other servers.
func (rt *Router) checkMemory(r *Route) error {
	if !r.Input || rt.overload.Accept() {
		return nil
	}
	state := rt.overload.State()
	if !state.Rejecting {
		return NewProblem(api.CodeUnavailable,
			"the server restarted after a crash and starts no new runs while it searches for the cause; try again later").
			WithRetry(overload.RetryAfter)
	}
	p := NewProblem(api.CodeUnavailable, "the server uses %.0f %% of its memory and starts no new runs; try again later",
		100*state.Pressure)
	return p.WithRetry(overload.RetryAfter).
		WithCause(fmt.Errorf("%d of %d bytes (%s)", state.Used, state.Limit, state.Limited))
}

// read calls handle. A GET request of an authenticated caller first waits for a slot. If its route
// is Large, it fails with an [*admission.QuotaError] if the responses in memory have reached a
// limit.
func (rt *Router) read(ctx context.Context, c *Caller, r *Route, handle func() error) error {
	if c == nil || r.Method != http.MethodGet {
		return handle()
	}
	if r.Large {
		return c.Read(ctx, rt.admission, handle)
	}
	return rt.admission.Read(ctx, c.Key.Tenant, r.Control, handle)
}

// bodyBytes returns how many bytes of a request's body the route may hold in memory: the request's
// Content-Length, but at most the route's limit, or the limit itself for a body of unknown length.
// It returns 0 for a Streamed body.
func (r *Route) bodyBytes(req *http.Request, c *Caller) int64 {
	switch n := req.ContentLength; {
	case r.Streamed || req.Body == nil || req.Body == http.NoBody:
		return 0
	case n >= 0:
		return min(n, r.bodyLimit(c))
	default:
		return r.bodyLimit(c)
	}
}

// reject answers a request with a problem. If its tenant is rejected often, the response is
// delayed.
func (rt *Router) reject(w http.ResponseWriter, r *http.Request, err error) {
	tenant := admission.NoKey
	if a := recorderOf(r.Context()); a != nil && a.caller != nil {
		tenant = a.caller.Key.Tenant
	}
	rt.admission.Rejections.Wait(r.Context(), tenant)
	writeProblem(w, r, err)
}
