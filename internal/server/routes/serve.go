package routes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// maxRequests limits the concurrent requests of a tenant through its routes on one server, unless its
// gateway or its quota concurrent_runs has a lower limit.
const maxRequests = 256

// Serve serves a request of a model API through the first route of the caller's gateway that has the
// request's path and model. It returns false, and has written nothing, if there is no such route, if the
// model is an agent of the caller's tenant, or if the body names no model.
func (s *Service) Serve(w http.ResponseWriter, r *http.Request, c *httpapi.Caller, body []byte) (bool, error) {
	model, err := s.modelOf(r.Context(), c, body)
	if err != nil || model == "" {
		return false, err
	}
	return s.serve(w, r, c, body, model)
}

// modelOf returns the model that a request names, or "" if that is an agent or the request is
// invalid.
func (s *Service) modelOf(ctx context.Context, c *httpapi.Caller, body []byte) (model string, err error) {
	if err := c.Parse(ctx, s.o.Admission, len(body), func() error {
		model, _ = gateway.ModelOf(body) // the endpoint of agents reports the error
		return nil
	}); err != nil || model == "" {
		return "", err
	}
	if name, _, _ := strings.Cut(model, "@"); store.Name.MatchString(name) { // agent@alias names an agent, too
		if isAgent, err := c.Tenant.HasAgent(ctx, name); isAgent || err != nil {
			return "", err
		}
	}
	return model, nil
}

// serve serves a request for a model that is not an agent. served is false if no route serves it.
func (s *Service) serve(
	w http.ResponseWriter,
	r *http.Request,
	c *httpapi.Caller,
	body []byte,
	model string,
) (served bool, err error) {
	p, err := planOf(r.Context(), c.Tenant)
	if err != nil {
		if errors.Is(err, store.ErrNoGateway) {
			err = nil
		}
		return false, err
	}
	t, release, err := s.table(r.Context(), p)
	if err != nil {
		return false, err
	}
	defer release()
	i := t.find(r.URL.Path, model)
	if i < 0 {
		return false, nil
	}
	if asked := cmp.Or(t.Routes[i].Model, model); !p.allows(asked) {
		return true, httpapi.NewProblem(api.CodeForbidden,
			"the operator's policy does not allow this tenant to use the model %.100q", asked)
	}
	ctx, cancel := context.WithCancelCause(sandbox.WithTenant(r.Context(), s.o.Admission.Sharer(c.Key.Tenant)))
	defer cancel(nil)
	q, err := s.active.enter(c.Key.Tenant, limitOf(p, t), cancel)
	if err != nil {
		return true, err
	}
	defer s.active.leave(q)
	rt, releaseRoute, err := s.route(ctx, p, t, i)
	if err != nil {
		return true, err
	}
	defer releaseRoute()
	s.active.pin(q, rt.pins)
	s.active.stopBlocked(s.o.Blocks.Current()) // the block may be newer than the route
	return true, s.forward(ctx, w, r, c, rt, body, cancel)
}

// allows reports whether the tenant's policy allows a model.
func (p *plan) allows(model string) bool {
	return p.tenant.ID() == store.Operator || len(p.policy.Models) == 0 || hook.Matches(p.policy.Models, model)
}

// limitOf returns the maximum number of requests that a tenant may have in progress on a server.
func limitOf(p *plan, t *table) int {
	limit := cmp.Or(t.MaxRequests, maxRequests)
	if quota := p.Info.Quota.ConcurrentRuns; quota > 0 {
		limit = int(min(quota, int64(limit)))
	}
	return limit
}

// forward passes a request through a route, and charges its memory to the tenant. cancel cancels
// ctx; the server calls it if memory is short.
func (s *Service) forward(
	ctx context.Context,
	w http.ResponseWriter,
	r *http.Request,
	c *httpapi.Caller,
	rt *route,
	body []byte,
	cancel context.CancelCauseFunc,
) error {
	tenant, closeTenant := s.o.Runs.OpenMemory(c.Key.Tenant, c.Info.Quota.MemoryBytes)
	defer closeTenant()
	memory := account.New(account.LevelRun, httpapi.RequestID(ctx), tenant, account.DefaultRun)
	defer memory.Close()
	memory.Evictable(cancel)
	if err := memory.TryReserve(int64(len(body))); err != nil {
		return httpapi.NewQuotaProblem("memory_bytes", time.Second, "%v", err)
	}
	out := newResponse(w)
	rt.handler.ServeHTTP(out, forUpstream(r.WithContext(account.WithContext(ctx, memory)), body))
	if out.begun || ctx.Err() == nil || r.Context().Err() != nil {
		return nil
	}
	return problemOf(context.Cause(ctx))
}

// problemOf returns the problem for a request that was canceled before its response began. cause is
// the cause of the cancellation.
func problemOf(cause error) error {
	if blocked, ok := errors.AsType[*agent.BlockedError](cause); ok && blocked.Digest != "" {
		return httpapi.NewProblem(api.CodeBlocked, "%v", cause)
	}
	return httpapi.NewProblem(api.CodeUnavailable, "%v", cause)
}

// forUpstream returns a copy of r for the upstream, with the given body and without the headers in
// private.
func forUpstream(r *http.Request, body []byte) *http.Request {
	out := r.Clone(r.Context())
	for _, name := range private {
		out.Header.Del(name)
	}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out
}
