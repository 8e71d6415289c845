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

// tags are the groups of operations in the document.
var tags = []struct{ name, about string }{
	{"runs", "Start, follow, list, resume and cancel runs of agents."},
	{"agents", "Agents as YAML files in versions, their aliases and rollouts."},
	{"modules", "Middlewares: WebAssembly modules and scripts."},
	{"keys", "API keys."},
	{"tokens", "Short-lived tokens of end users, for browsers."},
	{"cors", "The origins whose pages may use tokens."},
	{"secrets", "Credentials that agents refer to by name."},
	{"usage", "Usage by day, and series of counters for charts."},
	{"gateway", "The tenant's gateway: modules in front of model APIs."},
	{"openai", "Agents as models of OpenAI's APIs."},
	{"anthropic", "Agents as models of Anthropic's API."},
	{"ag-ui", "Agents in the AG-UI protocol."},
	{"tenants", "Tenants, for the operator."},
	{"blocks", "Modules that the operator blocks."},
	{"quarantine", "Runs that appear to have crashed a server, for the operator."},
	{"server", "Health, metrics and this document."},
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
	c.Info.License = &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"}
	c.Servers = []*huma.Server{{URL: "/", Description: "The server that this document is from"}}
	for _, tag := range tags {
		c.Tags = append(c.Tags, &huma.Tag{Name: tag.name, Description: tag.about})
	}
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: writeBody, Unmarshal: DecodeJSON}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {
			Type: "http", Scheme: "bearer", BearerFormat: "ar_…",
			Description: "An API key of a tenant, or the token of an end user (art_…). Clients of Anthropic's API may send it as X-Api-Key.",
		},
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
