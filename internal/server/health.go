package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// health serves the liveness and readiness of the server, and its OpenAPI document.
type health struct {
	store    store.Store
	draining <-chan struct{}
}

type healthOutput struct {
	Body struct {
		Status string `json:"status" enum:"ok"`
	}
}

func (h *health) Routes(rt *httpapi.Router) {
	httpapi.Register(
		rt,
		httpapi.Route{
			ID:      "healthz",
			Method:  "GET",
			Path:    "/healthz",
			Scope:   httpapi.Public,
			Tag:     "server",
			Summary: "Check that the server is alive",
		},
		func(context.Context, *httpapi.Caller, *struct{}) (*healthOutput, error) { return healthy(), nil },
	)
	httpapi.Register(
		rt,
		httpapi.Route{
			ID:      "readyz",
			Method:  "GET",
			Path:    "/readyz",
			Scope:   httpapi.Public,
			Tag:     "server",
			Summary: "Check that the server is ready for requests",
			About:   "Returns 503 while the server shuts down or its database is unreachable.",
		},
		func(ctx context.Context, _ *httpapi.Caller, _ *struct{}) (*healthOutput, error) {
			select {
			case <-h.draining:
				return nil, httpapi.NewProblem(api.CodeUnavailable, "the server is shutting down")
			default:
			}
			if _, err := h.store.TenantInfo(ctx, store.Operator); err != nil {
				return nil, httpapi.NewProblem(api.CodeUnavailable, "the database is unreachable").WithCause(err)
			}
			return healthy(), nil
		},
	)
	// All routes are registered before the first request.
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(rt.OpenAPI()) })
	rt.Raw(
		httpapi.Route{
			ID:      "openapi",
			Method:  "GET",
			Path:    "/openapi.json",
			Scope:   httpapi.Public,
			Tag:     "server",
			Summary: "Get this OpenAPI document",
		},
		func(op *huma.Operation, _ huma.Registry) {
			op.Responses["200"] = &huma.Response{
				Description: "The OpenAPI 3.1 document",
				Content:     map[string]*huma.MediaType{"application/json": {}},
			}
		},
		func(w http.ResponseWriter, _ *http.Request, _ *httpapi.Caller) error {
			b, err := document()
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
			return nil
		},
	)
}

func healthy() *healthOutput {
	out := &healthOutput{}
	out.Body.Status = "ok"
	return out
}
