package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/internal/store"
)

// health says whether the server lives, and whether it should be sent requests.
type health struct{ store store.Store }

type healthOutput struct {
	Body struct {
		Status string `json:"status" enum:"ok"`
	}
}

func (h *health) routes(s *Server) {
	route(s, Route{ID: "healthz", Method: "GET", Path: "/healthz", Scope: Public, Tag: "server", Summary: "Check that the server is alive"},
		func(context.Context, *Caller, *struct{}) (*healthOutput, error) { return healthy(), nil })
	route(s, Route{ID: "readyz", Method: "GET", Path: "/readyz", Scope: Public, Tag: "server", Summary: "Check that the server is ready for requests",
		About: "Returns 503 while the server shuts down or its database is unreachable."},
		func(ctx context.Context, _ *Caller, _ *struct{}) (*healthOutput, error) {
			select {
			case <-s.Draining():
				return nil, problem(codeUnavailable, "the server is shutting down")
			default:
			}
			if _, err := h.store.TenantInfo(ctx, store.Operator); err != nil {
				p := problem(codeUnavailable, "the database is unreachable")
				p.cause = err
				return nil, p
			}
			return healthy(), nil
		})
	s.raw(Route{ID: "openapi", Method: "GET", Path: "/openapi.json", Scope: Public, Tag: "server", Summary: "Get this OpenAPI document"},
		func(op *huma.Operation, _ huma.Registry) {
			op.Responses["200"] = &huma.Response{Description: "The OpenAPI 3.1 document", Content: map[string]*huma.MediaType{"application/json": {}}}
		},
		func(w http.ResponseWriter, _ *http.Request, _ *Caller) error {
			b, err := json.Marshal(s.api.OpenAPI())
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
			return nil
		})
}

func healthy() *healthOutput {
	out := &healthOutput{}
	out.Body.Status = "ok"
	return out
}
