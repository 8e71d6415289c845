package routes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options configure a [Service]. Abort, Private and Tracer are optional.
type Options struct {
	Store     store.Store
	Host      *host.Host
	Agents    *agents.Service
	Pool      *agents.Pool // caches routes together with agents
	Runs      *runs.Service
	Admission *admission.Controller
	Blocks    *blocks.List
	Logger    *slog.Logger
	// Go runs a function that the server waits for when it shuts down.
	Go func(func())
	// Abort, when closed, ends the retries of storing the usage of requests. What fails is logged and lost.
	Abort <-chan struct{}
	// Private lists the ranges of private addresses that upstreams may have.
	Private []netip.Prefix
	// Tracer observes the hooks of modules.
	Tracer tracing.Tracer
}

// A Service stores, checks and serves the gateways of tenants.
type Service struct {
	o      *Options
	active *requests
	usage  *ledger
}

// New returns a service with the options.
func New(o *Options) *Service {
	return &Service{o: o, active: newRequests(), usage: newLedger(o)}
}

// Routes registers the endpoints that manage a tenant's gateway.
func (s *Service) Routes(rt *httpapi.Router) {
	const tag, path = "gateway", "/v1/gateway"
	rt.Raw(httpapi.Route{
		ID:      "put-gateway",
		Method:  "PUT",
		Path:    path,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Body:    agentfile.MaxSize,
		Summary: "Create or update the tenant's gateway",
		About: `The body is a gateway.yaml file, as YAML or JSON. It names uploaded modules by name, name@version or digest,
and stored secrets in api_key_env and secrets. The server checks it before storing it. Requests in progress end with the
routes with which they began; all others use the new ones at once, on all servers. If the file equals the newest
version, no new version is created.`,
	}, describePut, s.put)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-gateway",
		Method:  "GET",
		Path:    path,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show the tenant's gateway",
	}, s.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-gateway",
		Method:  "DELETE",
		Path:    path,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Summary: "Delete the tenant's gateway with all its versions",
		About:   "Requests in progress are not interrupted.",
	}, s.delete)
}

type (
	getInput struct {
		Version int64 `query:"version" minimum:"1" doc:"The version. Default: the newest."`
	}
	output struct{ Body *api.Gateway }
)

func describePut(op *huma.Operation, schemas huma.Registry) {
	text := &huma.Schema{Type: "string"}
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content:  map[string]*huma.MediaType{"application/yaml": {Schema: text}},
	}
	op.Responses["200"] = &huma.Response{Description: "The gateway", Content: map[string]*huma.MediaType{
		"application/json": {Schema: huma.SchemaFromType(schemas, gatewayType)}}}
}

// put checks the gateway.yaml in a request, stores it and responds with the stored version.
func (s *Service) put(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		if _, size := errors.AsType[*http.MaxBytesError](err); size {
			return err
		}
		return httpapi.NewProblem(api.CodeInvalid, "the body is incomplete").WithCause(err)
	case !utf8.Valid(body):
		return httpapi.NewProblem(api.CodeInvalid, "the body is not UTF-8")
	}
	done, err := s.o.Admission.Check(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	checked, err := s.check(sandbox.WithTenant(r.Context(), s.o.Admission.Sharer(c.Key.Tenant)), c, body)
	if err != nil {
		return err
	}
	stored, err := c.Tenant.PutGateway(r.Context(), body, checked.Digests())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return httpapi.WriteJSON(w, show(stored, checked))
}

func (s *Service) get(ctx context.Context, c *httpapi.Caller, in *getInput) (*output, error) {
	stored, err := c.Tenant.Gateway(ctx, in.Version)
	if err != nil {
		return nil, err
	}
	g, err := agentfile.ParseGateway(fileName, stored.Body)
	if err != nil {
		return nil, err // the file parsed when it was stored
	}
	checked, i := &agents.Checked{}, 0
	walk(g, func(_ *agentfile.File, _, place string, m *agentfile.Middleware) {
		if i < len(stored.Modules) {
			checked.Add(place, m, stored.Modules[i])
		}
		i++
	})
	return &output{show(stored, checked)}, nil
}

func (s *Service) delete(ctx context.Context, c *httpapi.Caller, _ *struct{}) (*struct{}, error) {
	return nil, c.Tenant.DeleteGateway(ctx)
}

func show(stored *store.StoredGateway, checked *agents.Checked) *api.Gateway {
	return &api.Gateway{
		Version:  stored.Version,
		Created:  stored.Created.UTC(),
		Modules:  append([]api.Entry{}, checked.Entries...),
		Warnings: append([]string{}, checked.Warnings...),
		YAML:     string(stored.Body),
	}
}
