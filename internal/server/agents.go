package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// agents are what tenants run.
type agents struct {
	modules    *modules
	commandsOf func(tenant string) Commands // that its agents may name
}

// An Agent is a version of one as the API shows it.
type Agent struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version" doc:"The version number, starting at 1. Each change creates a new version."`
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules" nullable:"false" doc:"The modules that the agent runs with. Their names were resolved to digests when this version was stored."`
	Warnings []string  `json:"warnings" nullable:"false" doc:"Warnings for users of the agent."`
	YAML     string    `json:"yaml" doc:"The agent.yaml file."`
}

// An Entry is a module of an agent.
type Entry struct {
	At     string `json:"at" doc:"The module's location in the file, such as middlewares[0]."`
	Name   string `json:"name" doc:"The entry's name."`
	Module string `json:"module" doc:"The module as the file names it."`
	Digest string `json:"digest"`
}

type (
	// AgentPath is a part of inputs.
	AgentPath struct {
		Agent string `path:"agent" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The agent's name."`
	}
	getAgentInput struct {
		AgentPath
		Version int64 `query:"version" minimum:"1" doc:"The version. Default: the newest."`
	}
	agentOutput     struct{ Body *Agent }
	listAgentsInput struct {
		After string `query:"after" maxLength:"63" deprecated:"true" doc:"Only agents whose names sort after this one. Deprecated: use cursor."`
		ListInput
	}
	listAgentsOutput struct {
		Body struct {
			Agents []*Agent `json:"agents" nullable:"false"`
			ListOutput
		}
	}
)

func (a *agents) routes(s *Server) {
	const tag, one = "agents", "/v1/agents/{agent}"
	s.raw(Route{ID: "put-agent", Method: "PUT", Path: one, Scope: AgentsWrite, Tag: tag, Body: agentfile.MaxSize, Summary: "Create or update an agent",
		About: `The body is an agent.yaml file, as YAML or JSON. It names uploaded modules by name, name@version or digest. The server
checks it before storing it: the modules exist, their configurations are valid, and the operator's policy allows their grants.
If the file equals the newest version, no new version is created.`}, describePutAgent, a.put)
	route(s, Route{ID: "get-agent", Method: "GET", Path: one, Scope: AgentsRead, Tag: tag, Summary: "Show an agent"}, a.get)
	route(s, Route{ID: "list-agents", Method: "GET", Path: "/v1/agents", Scope: AgentsRead, Tag: tag, Summary: "List the newest versions of agents", About: aboutLists}, a.list)
	route(s, Route{ID: "delete-agent", Method: "DELETE", Path: one, Scope: AgentsWrite, Tag: tag, Summary: "Delete an agent with all its versions",
		About: "Its runs are kept."}, a.delete)
}

func describePutAgent(op *huma.Operation, schemas huma.Registry) {
	text := &huma.Schema{Type: "string"}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/yaml": {Schema: text}}}
	op.Parameters = []*huma.Param{{Name: "agent", In: "path", Required: true, Description: "The agent's name.", Schema: text}}
	op.Responses["200"] = &huma.Response{Description: "The agent", Content: map[string]*huma.MediaType{
		"application/json": {Schema: huma.SchemaFromType(schemas, agentType)}}}
}

func (a *agents) put(w http.ResponseWriter, r *http.Request, c *Caller) error {
	name := r.PathValue("agent")
	if !store.Name.MatchString(name) {
		return problem(codeInvalid, "the name is %q; want up to 63 lowercase letters, digits, dots, dashes and underscores", name)
	}
	body, err := io.ReadAll(r.Body)
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &size):
		return err
	case err != nil:
		p := problem(codeInvalid, "the body is incomplete")
		p.cause = err
		return p
	case !utf8.Valid(body):
		return problem(codeInvalid, "the body is not UTF-8")
	}
	done, err := a.modules.admission.Check(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	var checked *checkedAgent
	admission.RunLowPriority(func() {
		checked, err = a.check(sandbox.Sharing(r.Context(), a.modules.admission.Sharer(c.Key.Tenant)), c, name, body)
	})
	if err != nil {
		return err
	}
	kept, err := c.Tenant.PutAgent(r.Context(), name, body, checked.digests())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return writeJSON(w, checked.show(kept))
}

func (a *agents) get(ctx context.Context, c *Caller, in *getAgentInput) (*agentOutput, error) {
	_, shown, err := a.load(ctx, c.Tenant, in.Agent, in.Version)
	return &agentOutput{shown}, err
}

func (a *agents) list(ctx context.Context, c *Caller, in *listAgentsInput) (*listAgentsOutput, error) {
	page, err := in.page(listAgents, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	if page.After, err = afterName(page.After, in.After); err != nil {
		return nil, err
	}
	list, next, err := c.Tenant.Agents(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listAgentsOutput{}
	out.Body.Agents = []*Agent{}
	out.Body.setNext(listAgents, c.Tenant.ID(), next)
	for i := range list {
		_, shown, err := pinned(&list[i])
		if err != nil {
			return nil, err
		}
		out.Body.Agents = append(out.Body.Agents, shown)
	}
	return out, nil
}

func (a *agents) delete(ctx context.Context, c *Caller, in *AgentPath) (*struct{}, error) {
	return nil, c.Tenant.DeleteAgent(ctx, in.Agent)
}

// load returns a version of an agent, the newest if that is 0, ready to be
// made: see [agents.loadModule].
func (a *agents) load(ctx context.Context, t *store.Tenant, name string, version int64) (*agentfile.File, *Agent, error) {
	kept, err := t.Agent(ctx, name, version)
	if err != nil {
		return nil, nil, err
	}
	return pinned(kept)
}

// pinned reads what was kept, with the modules that its names stood for: each
// path in the file is a digest, and .wasm.
func pinned(kept *store.StoredAgent) (*agentfile.File, *Agent, error) {
	f, err := agentfile.Parse(kept.Name, kept.Body)
	if err != nil {
		return nil, nil, err // it was read before it was kept
	}
	f.Name = kept.Name
	checked := &checkedAgent{}
	i := 0
	walk(f, func(_ *agentfile.File, at string, m *agentfile.Middleware) {
		if i < len(kept.Modules) {
			checked.add(at, m, kept.Modules[i])
			m.Module = agentfile.Path(kept.Modules[i] + ".wasm")
		}
		i++
	})
	if i != len(kept.Modules) {
		return nil, nil, errors.New("agent " + kept.Name + ": its modules are not those of its file; put it again")
	}
	return f, checked.show(kept), nil
}

// loadModule is [host.FileOptions.LoadModule] for files that load returned. A module
// that the operator blocks is not loaded.
func (a *agents) loadModule(t *store.Tenant) func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
	return func(ctx context.Context, _, path string, limits host.Limits) (*host.Module, func(), error) {
		return a.modules.take(ctx, t, strings.TrimSuffix(path, ".wasm"), limits)
	}
}
