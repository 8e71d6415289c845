package modules

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Service stores, describes and loads the modules of tenants.
type Service struct {
	store     store.Store
	host      *host.Host
	blocks    *blocks.List
	log       *slog.Logger
	admission *admission.Controller
	timeouts  *httpapi.Timeouts
	limit     int64 // maximum size of a module, in bytes
	now       func() time.Time

	cache *cache
}

// Options configure a [Service]. All fields are required.
type Options struct {
	Store     store.Store
	Host      *host.Host
	Blocks    *blocks.List
	Admission *admission.Controller
	Logger    *slog.Logger
	Now       func() time.Time
	Timeouts  *httpapi.Timeouts
	MaxUpload int64 // maximum size of a module, in bytes
}

// New returns a service with the options.
func New(o *Options) *Service {
	m := &Service{
		store:     o.Store,
		host:      o.Host,
		blocks:    o.Blocks,
		admission: o.Admission,
		log:       o.Logger,
		timeouts:  o.Timeouts,
		limit:     o.MaxUpload,
		now:       o.Now,
		cache:     newCache(o.Now),
	}
	return m
}

// maxUsers is the number of agents that are shown with a module.
const maxUsers = 100

// Routes registers the endpoints that manage modules.
func (m *Service) Routes(rt *httpapi.Router) {
	const tag, one = "modules", "/v1/modules/{module}"
	rt.Raw(httpapi.Route{
		ID:       "put-module",
		Method:   "PUT",
		Path:     "/v1/modules",
		Scope:    httpapi.ModulesWrite,
		Tag:      tag,
		Body:     m.limit*4/3 + maxManifestExtra,
		Streamed: true,
		Summary:  "Upload a module",
		About: `The body is WebAssembly, a script (TypeScript or JavaScript), or an Extism manifest with its module as
data. The server verifies and compiles it and calls its describe before storing it. With Accept: text/event-stream, the
response is a stream of events: progress, then module or problem.`,
	}, m.describeUpload, m.upload)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-modules",
		Method:  "GET",
		Path:    "/v1/modules",
		Scope:   httpapi.ModulesRead,
		Tag:     tag,
		Summary: "List modules, newest first",
		About:   httpapi.AboutLists,
	}, m.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-module",
		Method:  "GET",
		Path:    one,
		Scope:   httpapi.ModulesRead,
		Tag:     tag,
		Summary: "Show a module",
	}, m.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-module",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.ModulesWrite,
		Tag:     tag,
		Summary: "Delete a module and its names",
		About: `Fails with 409 if the newest version of the gateway uses the module, or a version of an agent that is the newest,
or that an alias or an active rollout refers to.`,
	}, m.delete)
}

// Find returns a tenant's module by its digest, its name, or name@version. A name alone selects its
// newest version. Find fails with [store.ErrNoModule] if the tenant has no such module.
func (m *Service) Find(ctx context.Context, t *store.Tenant, ref string) (*store.TenantModule, error) {
	digest := httpapi.TrimDigest(ref)
	if !isDigest(digest) {
		name, version, _ := strings.Cut(ref, "@")
		found, err := t.ModuleName(ctx, name, version)
		if err != nil {
			return nil, err
		}
		digest = found.Digest
	}
	return t.Module(ctx, digest)
}

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func isDigest(s string) bool { return digestPattern.MatchString(s) }

func (m *Service) list(ctx context.Context, c *httpapi.Caller, in *listModulesInput) (*listModulesOutput, error) {
	page, err := in.Page(httpapi.ListModules, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	page.Name = in.Name
	list, next, err := c.Tenant.Modules(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listModulesOutput{}
	out.Body.Modules = []*api.Module{}
	out.Body.SetNext(httpapi.ListModules, c.Tenant.ID(), next)
	for i := range list {
		shown, err := m.show(&list[i])
		if err != nil {
			return nil, err
		}
		out.Body.Modules = append(out.Body.Modules, shown)
	}
	return out, nil
}

func (m *Service) get(ctx context.Context, c *httpapi.Caller, in *ModulePath) (*moduleOutput, error) {
	stored, err := m.Find(ctx, c.Tenant, in.Module)
	if err != nil {
		return nil, err
	}
	shown, err := m.show(stored)
	if err != nil || !c.Has(httpapi.AgentsRead) {
		return &moduleOutput{shown}, err
	}
	users, err := c.Tenant.ModuleUsers(ctx, stored.Digest, maxUsers)
	for _, u := range users {
		shown.Users = append(shown.Users, api.ModuleUser(u))
	}
	return &moduleOutput{shown}, err
}

func (m *Service) delete(ctx context.Context, c *httpapi.Caller, in *ModulePath) (*struct{}, error) {
	stored, err := m.Find(ctx, c.Tenant, in.Module)
	if err != nil {
		return nil, err
	}
	return nil, c.Tenant.DeleteModule(ctx, stored.Digest)
}

// Acquire returns a loaded module of a tenant, which the caller must release. It fails if the
// operator blocks the module, and with [store.ErrNoModule] if the tenant does not have it. The
// module's name is its digest, since tenants share the loaded module.
func (m *Service) Acquire(
	ctx context.Context,
	t *store.Tenant,
	digest string,
	limits host.Limits,
) (loaded *host.Module, release func(), err error) {
	if why, blocked := m.blocks.Reason(digest); blocked {
		return nil, nil, httpapi.NewProblem(api.CodeBlocked, "the operator blocks module sha256:%s: %s", digest, why)
	}
	if _, err := t.Module(ctx, digest); err != nil {
		return nil, nil, err
	}
	return m.acquire(ctx, t.ID(), digest, limits)
}

// show returns the API's form of a tenant's module.
func (m *Service) show(stored *store.TenantModule) (*api.Module, error) {
	out := &api.Module{
		Digest:    httpapi.DigestPrefix + stored.Digest,
		Kind:      stored.Kind,
		SizeBytes: stored.Size,
		Names:     []api.ModuleName{},
		Created:   stored.Created.UTC(),
	}
	for _, n := range stored.Names {
		out.Names = append(out.Names, api.ModuleName{Name: n.Name, Version: n.Version})
	}
	out.Blocked, _ = m.blocks.Reason(stored.Digest)
	return out, json.Unmarshal(stored.About, &out.About)
}
