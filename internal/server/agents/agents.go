package agents

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options configure a [Service]. Model, Private and Commands are optional.
type Options struct {
	Store     store.Store
	Host      *host.Host
	Modules   *modules.Service
	Admission *admission.Controller
	Logger    *slog.Logger
	Now       func() time.Time
	// Journal holds the journal options that all tenants share.
	Journal journal.Options
	// Tracer returns the tracer of a tenant's runs.
	Tracer func(t *store.Tenant) tracing.Tracer
	// Getenv, Model, Private and Commands are the server's options of the same names.
	Getenv   func(name string) string
	Model    model.Model
	Private  []netip.Prefix
	Commands Commands
}

// A Service stores and checks the agents of tenants.
type Service struct {
	Options   *Options
	modules   *modules.Service
	admission *admission.Controller
}

// New returns a service with the options.
func New(o *Options) *Service { return &Service{o, o.Modules, o.Admission} }

// Routes registers the endpoints that manage agents.
func (a *Service) Routes(rt *httpapi.Router) {
	const tag, one = "agents", "/v1/agents/{agent}"
	rt.Raw(httpapi.Route{
		ID:      "put-agent",
		Method:  "PUT",
		Path:    one,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Body:    agentfile.MaxSize,
		Summary: "Create or update an agent",
		About: `The body is an agent.yaml file, as YAML or JSON. It names uploaded modules by name, name@version or digest.
The server checks it before storing it: the modules exist, their configurations are valid, and the operator's policy
allows their grants. If the file equals the newest version, no new version is created.`,
	}, describePutAgent, a.put)
	rt.Raw(httpapi.Route{
		ID:      "check-agent",
		Method:  "POST",
		Path:    one + "/check",
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Body:    agentfile.MaxSize,
		Summary: "Check an agent file without storing it",
		About: `The body is an agent.yaml file, as YAML or JSON. The server checks it as if it were to be stored. An invalid file
is not an error of the request: the response lists what is wrong, and where.`,
	}, describeCheckAgent, a.checkOnly)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-agent",
		Method:  "GET",
		Path:    one,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show an agent",
		About:   "Shows the newest version, unless the path has agent@version or agent@alias, or the query a version.",
	}, a.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-agents",
		Method:  "GET",
		Path:    "/v1/agents",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the newest versions of agents",
		About:   httpapi.AboutLists,
	}, a.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-agent",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Summary: "Delete an agent with all its versions",
		About:   "Its runs are kept; its aliases are deleted.",
	}, a.delete)
	a.aliasRoutes(rt)
}

func describePutAgent(op *huma.Operation, schemas huma.Registry) {
	describeFile(op)
	op.Responses["200"] = &huma.Response{Description: "The agent", Content: map[string]*huma.MediaType{
		"application/json": {Schema: huma.SchemaFromType(schemas, agentType)}}}
}

// describeFile describes the path and the body of requests with an agent file.
func describeFile(op *huma.Operation) {
	text := &huma.Schema{Type: "string"}
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content:  map[string]*huma.MediaType{"application/yaml": {Schema: text}},
	}
	op.Parameters = []*huma.Param{
		{Name: "agent", In: "path", Required: true, Description: "The agent's name.", Schema: text},
	}
}

// put checks the agent file in a request, stores it and responds with the stored version.
func (a *Service) put(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	name, body, err := readFile(r)
	if err != nil {
		return err
	}
	done, err := a.admission.Check(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	checked, err := a.check(sandbox.WithTenant(r.Context(), a.admission.Sharer(c.Key.Tenant)), c, name, body)
	if err != nil {
		return err
	}
	stored, err := c.Tenant.PutAgent(r.Context(), name, body, checked.Digests())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return httpapi.WriteJSON(w, show(stored, checked))
}

// readFile returns the agent's name and the file of a request.
func readFile(r *http.Request) (name string, body []byte, err error) {
	name = r.PathValue("agent")
	if err := checkName(name); err != nil {
		return "", nil, err
	}
	body, err = ReadBody(r)
	return name, body, err
}

// checkName fails with a [*httpapi.Problem] if name is not the name of an agent.
func checkName(name string) error {
	if store.Name.MatchString(name) {
		return nil
	}
	return httpapi.NewProblem(api.CodeInvalid,
		"the name is %q; want up to 63 lowercase letters, digits, dots, dashes and underscores", name)
}

// ReadBody returns the agent file in a request.
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &size):
		return nil, err
	case err != nil:
		return nil, httpapi.NewProblem(api.CodeInvalid, "the body is incomplete").WithCause(err)
	case !utf8.Valid(body):
		return nil, httpapi.NewProblem(api.CodeInvalid, "the body is not UTF-8")
	}
	return body, nil
}

func (a *Service) get(ctx context.Context, c *httpapi.Caller, in *getAgentInput) (*agentOutput, error) {
	ref, err := ParseRef(in.Agent, in.Version)
	if err != nil {
		return nil, err
	}
	if ref.Version == 0 && ref.Alias == "" {
		_, shown, err := a.Load(ctx, c.Tenant, ref.Name, 0)
		return &agentOutput{shown}, err
	}
	stored, err := c.Tenant.AgentOf(ctx, ref.AgentRef)
	if err != nil {
		return nil, err
	}
	_, shown, err := readStored(stored)
	return &agentOutput{shown}, err
}

func (a *Service) list(ctx context.Context, c *httpapi.Caller, in *listAgentsInput) (*listAgentsOutput, error) {
	page, err := in.Page(httpapi.ListAgents, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	if page.After, err = httpapi.PositionAfter(page.After, in.After); err != nil {
		return nil, err
	}
	page.Name = in.Name
	list, next, err := c.Tenant.Agents(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listAgentsOutput{}
	out.Body.Agents = []*api.Agent{}
	out.Body.SetNext(httpapi.ListAgents, c.Tenant.ID(), next)
	for i := range list {
		_, shown, err := readStored(&list[i])
		if err != nil {
			return nil, err
		}
		for j := range list[i].Aliases {
			shown.Aliases = append(shown.Aliases, *showAlias(&list[i].Aliases[j]))
		}
		out.Body.Agents = append(out.Body.Agents, shown)
	}
	return out, nil
}

func (a *Service) delete(ctx context.Context, c *httpapi.Caller, in *AgentPath) (*struct{}, error) {
	return nil, c.Tenant.DeleteAgent(ctx, in.Agent)
}

// Load reads a version of an agent, or the newest one if version is 0. It returns the parsed file
// and the version's description for the API. The file's modules are pinned; see
// [Service.LoadModule].
func (a *Service) Load(
	ctx context.Context,
	t *store.Tenant,
	name string,
	version int64,
) (*agentfile.File, *api.Agent, error) {
	stored, err := t.Agent(ctx, name, version)
	if err != nil {
		return nil, nil, err
	}
	return readStored(stored)
}

// readStored returns the file and the API's description of a stored agent. It pins the file's
// modules: the path of each middleware becomes its module's digest with the extension .wasm.
func readStored(stored *store.StoredAgent) (*agentfile.File, *api.Agent, error) {
	f, err := agentfile.Parse(stored.Name, stored.Body)
	if err != nil {
		return nil, nil, err // the file parsed when it was stored
	}
	f.Name = stored.Name
	checked := &Checked{}
	i := 0
	walk(f, func(_ *agentfile.File, at string, m *agentfile.Middleware) {
		if i < len(stored.Modules) {
			checked.Add(at, m, stored.Modules[i])
			m.Module = agentfile.Path(stored.Modules[i] + ".wasm")
		}
		i++
	})
	if i != len(stored.Modules) {
		return nil, nil, errors.New(
			"agent " + stored.Name + ": the stored modules do not match the file; store the agent again",
		)
	}
	return f, show(stored, checked), nil
}
