package httpapi

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/agent-runner/agent-runner/host/api"
)

// A mux records its patterns, so that a test can find undocumented routes.
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

// schemaNames holds the document's names of types that have other names in package api.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[api.CreateKey]():    "NewKeyBody",
	reflect.TypeFor[api.CreateTenant](): "CreateTenantInputBody",
	reflect.TypeFor[api.FieldError]():   "Wrong",
	reflect.TypeFor[api.StoredSize]():   "Kept",
	reflect.TypeFor[api.TenantUpdate](): "UpdateTenantInputBody",
	reflect.TypeFor[api.Usage]():        "UsageOutputBody",
	reflect.TypeFor[api.UsageRow]():     "Usage",
}

// schemaName returns the name of a type in the document.
func schemaName(t reflect.Type, hint string) string {
	if name, ok := schemaNames[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// newAPI returns a huma API that registers its handlers with m. It configures the OpenAPI document,
// the encoding of bodies and the format of errors.
func newAPI(m *mux, version string) huma.API {
	c := huma.DefaultConfig("agent-runner", version)
	c.Info.Description = "Tenants bring middlewares as WebAssembly modules, and run agents with them."
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: writeBody, Unmarshal: DecodeJSON}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", BearerFormat: "ar_…"},
	}
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
