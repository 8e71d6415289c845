package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// A mux records its patterns, so that a test finds routes that the document lacks.
type mux struct {
	*http.ServeMux
	patterns []string
}

// HandleFunc implements [humago.Mux].
func (m *mux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(handle))
}

// Handle registers a handler for a pattern.
func (m *mux) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.Handle(pattern, h)
}

// newAPI returns huma's API: the OpenAPI document and the encoding of bodies.
func newAPI(m *mux, version string) huma.API {
	c := huma.DefaultConfig("agent-runner", version)
	c.Info.Description = "Tenants bring middlewares as WebAssembly modules, and run agents with them."
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: WriteJSON, Unmarshal: DecodeJSON}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", BearerFormat: "ar_…"}}
	c.Transformers = []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
		err, ok := v.(error)
		if !ok {
			return v, nil
		}
		r, _ := humago.Unwrap(ctx)
		return LogProblem(r, err), nil
	}}
	return humago.New(m, c)
}
