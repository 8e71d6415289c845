package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// health serves the liveness and readiness of the server, and its OpenAPI document.
type health struct {
	store    store.Store
	draining <-chan struct{}

	turn    chan struct{} // has one slot, for the request that uses the fields below
	checked time.Time     // when the store was last queried
	failed  error         // the result of the last query
}

func newHealth(s store.Store, draining <-chan struct{}) *health {
	return &health{store: s, draining: draining, turn: make(chan struct{}, 1)}
}

type healthOutput struct {
	Body struct {
		Status string `json:"status" enum:"ok"`
	}
}

// Routes registers the endpoints for health checks and the OpenAPI document.
func (h *health) Routes(rt *httpapi.Router) {
	httpapi.Register(rt, httpapi.Route{
		ID:      "healthz",
		Method:  "GET",
		Path:    "/healthz",
		Scope:   httpapi.Public,
		Tag:     "server",
		Summary: "Check that the server is alive",
	}, func(context.Context, *httpapi.Caller, *struct{}) (*healthOutput, error) { return healthy(), nil })
	httpapi.Register(rt, httpapi.Route{
		ID:      "readyz",
		Method:  "GET",
		Path:    "/readyz",
		Scope:   httpapi.Public,
		Tag:     "server",
		Summary: "Check that the server is ready for requests",
		About:   "Returns 503 while the server shuts down or its database is unreachable.",
	}, func(ctx context.Context, _ *httpapi.Caller, _ *struct{}) (*healthOutput, error) {
		select {
		case <-h.draining:
			return nil, httpapi.NewProblem(api.CodeUnavailable, "the server is shutting down")
		default:
		}
		if err := h.checkStore(ctx); err != nil {
			return nil, httpapi.NewProblem(api.CodeUnavailable, "the database is unreachable").WithCause(err)
		}
		return healthy(), nil
	})
	// All routes are registered before the first request.
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(rt.OpenAPI()) })
	rt.Raw(httpapi.Route{
		ID:      "openapi",
		Method:  "GET",
		Path:    "/openapi.json",
		Scope:   httpapi.Public,
		Tag:     "server",
		Summary: "Get this OpenAPI document",
	}, func(op *huma.Operation, _ huma.Registry) {
		op.Responses["200"] = &huma.Response{
			Description: "The OpenAPI 3.1 document",
			Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
				Type: "object", Properties: map[string]*huma.Schema{
					"openapi": {Type: "string"}, "info": {Type: "object"}, "paths": {Type: "object"}},
			}}},
		}
	}, func(w http.ResponseWriter, _ *http.Request, _ *httpapi.Caller) error {
		b, err := document()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
		return nil
	})
}

// Limits on database queries for /readyz, which needs no key.
const (
	readyTTL     = time.Second
	readyTimeout = 5 * time.Second
)

// checkStore returns an error if the database is unreachable. It queries the database at most once
// per readyTTL, one query at a time, and otherwise returns the last result.
func (h *health) checkStore(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if time.Since(h.checked) < readyTTL {
		return h.failed
	}
	// The answer is for all clients, so the query does not end with the client that caused it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	_, h.failed = h.store.TenantInfo(ctx, store.Operator)
	h.checked = time.Now()
	return h.failed
}

func healthy() *healthOutput {
	out := &healthOutput{}
	out.Body.Status = "ok"
	return out
}
