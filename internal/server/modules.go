package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// modules are those that tenants bring.
type modules struct {
	store     store.Store
	host      *host.Host
	blocks    *blocks
	log       *slog.Logger
	times     *times
	admission *admission.Controller
	limit     int64 // bytes of one

	shelf *shelf
}

// moduleVersion is what a version of a module may be called.
var moduleVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$`)

func newModules(s *Server) *modules {
	m := &modules{store: s.store, host: s.host, blocks: s.blocks, log: s.log, times: &s.times, admission: s.admission, limit: s.options.MaxUpload}
	m.shelf = newShelf(m.load, s.now)
	return m
}

type (
	// ModulePath is a part of inputs.
	ModulePath struct {
		Module string `path:"module" pattern:"^[A-Za-z0-9][A-Za-z0-9.@:+_-]{0,140}$" doc:"A digest, a name, or name@version. A name without version is its newest version."`
	}
	moduleOutput      struct{ Body *Module }
	listModulesOutput struct {
		Body struct {
			Modules []*Module `json:"modules" nullable:"false"`
			ListOutput
		}
	}
)

func (m *modules) routes(s *Server) {
	const tag, one = "modules", "/v1/modules/{module}"
	s.raw(Route{ID: "put-module", Method: "PUT", Path: "/v1/modules", Scope: ModulesWrite, Tag: tag, Body: m.limit*4/3 + manifestExtra, Streamed: true,
		Summary: "Upload a module",
		About: `The body is WebAssembly, a script (TypeScript or JavaScript), or an Extism manifest with its module as data. The server verifies
and compiles it and calls its describe before storing it. With Accept: text/event-stream, the response is a stream of events: progress, then module or problem.`},
		m.describeUpload, m.upload)
	route(s, Route{ID: "list-modules", Method: "GET", Path: "/v1/modules", Scope: ModulesRead, Tag: tag, Summary: "List modules, newest first", About: aboutLists}, m.list)
	route(s, Route{ID: "get-module", Method: "GET", Path: one, Scope: ModulesRead, Tag: tag, Summary: "Show a module"}, m.get)
	route(s, Route{ID: "delete-module", Method: "DELETE", Path: one, Scope: ModulesWrite, Tag: tag, Summary: "Delete a module and its names",
		About: "Fails with 409 if the newest version of an agent uses the module."}, m.delete)
}

// How modules are forgotten that no tenant has any more.
const (
	sweepEvery = time.Hour
	orphanAge  = 24 * time.Hour // since they came: one may be about to be named
)

// sweep forgets modules that nobody has, until ctx ends.
func (m *modules) sweep(ctx context.Context, every, age time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		switch n, err := m.store.DeleteUnusedModules(ctx, age); {
		case err != nil && ctx.Err() == nil:
			m.log.Error("modules that nobody has are not forgotten", "error", err)
		case n > 0:
			m.log.Info("modules that nobody has are forgotten", "modules", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *modules) describeUpload(op *huma.Operation, schemas huma.Registry) {
	bytes := &huma.Schema{Type: "string", Format: "binary"}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/wasm": {Schema: bytes}, "application/typescript": {Schema: bytes}, "application/javascript": {Schema: bytes},
		"application/vnd.extism.manifest+json": {Schema: bytes},
	}}
	text := func(name, about string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: about, Schema: &huma.Schema{Type: "string"}}
	}
	op.Parameters = []*huma.Param{
		text("name", "The module's name, such as redact. Default: none; the module has only its digest."),
		text("version", "The version of that name. It cannot be changed later. Default: the version that the module reports, else the first 12 characters of its digest."),
	}
	op.Responses["200"] = &huma.Response{Description: "The module", Content: map[string]*huma.MediaType{
		"application/json": {Schema: huma.SchemaFromType(schemas, moduleType)}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
}

// find returns a module by what a path or an agent calls it.
func (m *modules) find(ctx context.Context, t *store.Tenant, ref string) (*store.TenantModule, error) {
	digest := bare(ref)
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

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func isDigest(s string) bool { return digestForm.MatchString(s) }

func (m *modules) list(ctx context.Context, c *Caller, in *ListInput) (*listModulesOutput, error) {
	page, err := in.page(listModules, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := c.Tenant.Modules(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listModulesOutput{}
	out.Body.Modules = []*Module{}
	out.Body.setNext(listModules, c.Tenant.ID(), next)
	for i := range list {
		shown, err := m.show(&list[i])
		if err != nil {
			return nil, err
		}
		out.Body.Modules = append(out.Body.Modules, shown)
	}
	return out, nil
}

func (m *modules) get(ctx context.Context, c *Caller, in *ModulePath) (*moduleOutput, error) {
	kept, err := m.find(ctx, c.Tenant, in.Module)
	if err != nil {
		return nil, err
	}
	shown, err := m.show(kept)
	return &moduleOutput{shown}, err
}

func (m *modules) delete(ctx context.Context, c *Caller, in *ModulePath) (*struct{}, error) {
	kept, err := m.find(ctx, c.Tenant, in.Module)
	if err != nil {
		return nil, err
	}
	return nil, c.Tenant.DeleteModule(ctx, kept.Digest)
}

// take is a tenant's module, loaded, unless the operator blocks it. Its name is its digest.
func (m *modules) take(ctx context.Context, t *store.Tenant, digest string, limits host.Limits) (loaded *host.Module, release func(), err error) {
	if why, blocked := m.blocks.reason(digest); blocked {
		return nil, nil, problem(codeBlocked, "the operator blocks module sha256:%s: %s", digest, why)
	}
	if _, err := t.Module(ctx, digest); err != nil {
		return nil, nil, err
	}
	return m.shelf.take(ctx, digest, limits)
}

// load loads a module, for everybody who has it.
func (m *modules) load(ctx context.Context, digest string, limits host.Limits) (*host.Module, error) {
	content, err := m.store.Module(ctx, digest)
	if err != nil {
		return nil, err
	}
	return m.host.LoadBytes(ctx, digest+".wasm", content, limits)
}

// nameOf is what an upload is to be called.
func nameOf(r *http.Request) (name, version string, err error) {
	q := r.URL.Query()
	name, version = q.Get("name"), q.Get("version")
	for parameter := range q {
		if parameter != "name" && parameter != "version" {
			return "", "", problem(codeInvalid, "unknown parameter %q; want name or version", parameter)
		}
	}
	switch {
	case name == "" && version != "":
		return "", "", problem(codeInvalid, "a version needs a name: ?name=NAME&version=%s", version)
	case name != "" && (!store.Name.MatchString(name) || isDigest(name)):
		return "", "", problem(codeInvalid, "the name is %q; want up to 63 lowercase letters, digits, dots, dashes and underscores, and not a digest", name)
	case version != "" && !moduleVersion.MatchString(version):
		return "", "", problem(codeInvalid, "the version is %q; want up to 64 letters, digits, dots, plus signs, dashes and underscores", version)
	}
	return name, version, nil
}

// versionOf is a version for a module that was uploaded without one.
func versionOf(said, digest string) string {
	if moduleVersion.MatchString(said) {
		return said
	}
	return fmt.Sprintf("%.12s", digest)
}
