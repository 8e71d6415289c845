package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agentmodel"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/routes"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Models serves the model APIs of OpenAI and Anthropic, with agents as models.
type Models struct {
	Runs      *runs.Service
	Routed    *routes.Service // serves models that are no agents
	Admission *admission.Controller
	Timeouts  *httpapi.Timeouts
}

// maxConversation limits a request with a conversation, in bytes.
const maxConversation = 8 << 20

type modelsOutput struct {
	Body struct {
		Object string  `json:"object" enum:"list"`
		Data   []Model `json:"data" nullable:"false"`
	}
}

type modelOutput struct{ Body Model }

// A Model is an agent, or a model that a route names, in the format of OpenAI's models.
type Model struct {
	ID      string `json:"id" doc:"The name of the agent or the model."`
	Object  string `json:"object" enum:"model"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// aboutModels is the part of the OpenAPI descriptions that the endpoints of all model APIs share.
const aboutModels = `The model is the name of an agent, agent@version or agent@alias; another model is served by the first route of the tenant's gateway with
the API and the model, which passes the request to its upstream.

The header X-Thread names a thread that the request continues: an agent gets the messages of the thread, followed by
those of the request. A response has its run and its thread in agent_runner.

Of agents: Tools of the request run in the client: a call of one pauses the run, and the next request, with its result
and the same model, continues the same run. The requests of an agent may set the parameters that it and the policy
allow; docs/platform.md lists the fields that have no effect. A field with an effect that agents do not have gets 400.
If the client disconnects, the run ends, unless the request has an Idempotency-Key.`

const aboutResponses = `

previous_response_id continues the conversation of an earlier response of an agent, whatever its run: with the last
response of a thread, it continues the thread, and otherwise a fork. conversation is a thread.`

// Routes registers the endpoints of the model APIs.
func (x *Models) Routes(rt *httpapi.Router) {
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-models",
		Method:  "GET",
		Path:    "/v1/models",
		Scope:   httpapi.AgentsRead,
		Tag:     tagOpenAI,
		Summary: "List agents and the models of routes as OpenAI models",
	}, x.models)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-model",
		Method:  "GET",
		Path:    "/v1/models/{agent}",
		Scope:   httpapi.AgentsRead,
		Tag:     tagOpenAI,
		Summary: "Show an agent or a model of a route as an OpenAI model",
	}, x.model)
	for _, e := range []endpoint{
		{
			"chat-completions", "/v1/chat/completions", tagOpenAI, "Create a chat completion", "",
			agentmodel.Chat(), "messages",
		},
		{
			"responses", "/v1/responses", tagOpenAI, "Create a response of OpenAI's Responses API", aboutResponses,
			agentmodel.Responses(), "input",
		},
		{
			"messages", "/v1/messages", tagAnthropic, "Create a message of Anthropic's Messages API", "",
			agentmodel.Messages(), "messages",
		},
	} {
		rt.Raw(httpapi.Route{
			ID:      e.id,
			Method:  "POST",
			Path:    e.path,
			Scope:   httpapi.RunsWrite,
			Tag:     e.tag,
			Body:    maxConversation,
			Input:   true,
			Summary: e.summary + " with an agent as the model, or through a route",
			About:   aboutModels + e.about,
		}, e.describe, func(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
			return x.serve(w, req, c, e.protocol)
		})
	}
	rt.Raw(httpapi.Route{
		ID:      "count-message-tokens",
		Method:  "POST",
		Path:    "/v1/messages/count_tokens",
		Scope:   httpapi.RunsWrite,
		Tag:     tagAnthropic,
		Body:    maxConversation,
		Input:   true,
		Summary: "Count the tokens of a message through a route; agents cannot",
		About: `An agent adds its instruction, its tools and what its modules change, so that only a run knows the tokens of its
requests. If the model is an agent, or no route has it, the answer is 404.`,
	}, nil, x.count)
}

const (
	tagOpenAI    = "openai"
	tagAnthropic = "anthropic"
)

var errNoCount = &agentmodel.Error{
	Status: http.StatusNotFound,
	Message: "agents do not count tokens: their instruction, " +
		"tools and modules decide what a request to the model has; an answer says in usage how many there were",
}

// An endpoint describes a route on which agents answer requests of a model API.
type endpoint struct {
	id, path, tag, summary string
	about                  string // follows aboutModels in the description
	protocol               *agentmodel.Protocol
	conversation           string // the field with the conversation
}

func (e *endpoint) describe(op *huma.Operation, _ huma.Registry) {
	object := &huma.Schema{Type: "object", Description: "The answer in the format of the API."}
	fields := []string{e.conversation, "tools", "tool_choice", "stream", "metadata"}
	if e.about == aboutResponses {
		fields = append(fields, "previous_response_id", "conversation")
	}
	request := objectSchema("The request in the format of the API.", map[string]string{"model": "string"}, fields...)
	request.Required = append(request.Required, e.conversation)
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Schema: request}}}
	op.Responses["200"] = &huma.Response{
		Description: "The answer in the format of the API",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: object}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
	}
	runs.DescribeKey(op)
	op.Parameters = append(op.Parameters, &huma.Param{
		Name:        httpapi.ThreadHeader,
		In:          "header",
		Schema:      &huma.Schema{Type: "string"},
		Description: "The thread that the request continues, if its model is an agent.",
	})
}

// objectSchema returns the schema of another API's object: its required fields with their
// types, and the optional fields that the server uses.
func objectSchema(about string, required map[string]string, more ...string) *huma.Schema {
	s := &huma.Schema{Type: "object", Description: about, Properties: map[string]*huma.Schema{}}
	for name, kind := range required {
		s.Properties[name] = &huma.Schema{Type: kind}
		if kind == "array" {
			s.Properties[name].Items = &huma.Schema{Type: "object"}
		}
		s.Required = append(s.Required, name)
	}
	slices.Sort(s.Required)
	for _, name := range more {
		s.Properties[name] = fieldSchema(name)
	}
	return s
}

// fieldSchema returns the schema of a field of another API's object.
func fieldSchema(name string) *huma.Schema {
	object := &huma.Schema{Type: "object", AdditionalProperties: true}
	list := &huma.Schema{Type: "array", Items: object}
	switch name {
	case "messages", "tools", "context", "resume":
		return list
	case "input":
		return &huma.Schema{OneOf: []*huma.Schema{{Type: "string"}, list}}
	case "metadata":
		return object
	case "previous_response_id":
		return &huma.Schema{Type: "string"}
	case "conversation":
		return &huma.Schema{OneOf: []*huma.Schema{{Type: "string"}, object}}
	case "stream":
		return &huma.Schema{Type: "boolean"}
	}
	return &huma.Schema{Description: "Any JSON."}
}

func (x *Models) models(ctx context.Context, c *httpapi.Caller, _ *struct{}) (*modelsOutput, error) {
	list, err := c.Tenant.AgentNames(ctx)
	if err != nil {
		return nil, err
	}
	out := &modelsOutput{}
	out.Body.Object, out.Body.Data = "list", []Model{}
	for _, a := range list {
		out.Body.Data = append(out.Body.Data, newModel(c, a.Name, a.Created))
	}
	routed, stored, err := x.Routed.Models(ctx, c.Tenant)
	for _, name := range routed {
		if !slices.ContainsFunc(list, func(a store.StoredAgent) bool { return a.Name == name }) {
			out.Body.Data = append(out.Body.Data, newModel(c, name, stored))
		}
	}
	return out, err
}

func (x *Models) model(ctx context.Context, c *httpapi.Caller, in *agents.AgentRefPath) (*modelOutput, error) {
	ref, err := agents.ParseRef(in.Agent, 0)
	if err != nil {
		return nil, httpapi.ProblemOf(err).ForOpenAI()
	}
	a, err := c.Tenant.AgentOf(ctx, ref.AgentRef)
	if errors.Is(err, store.ErrNoAgent) {
		names, stored, failed := x.Routed.Models(ctx, c.Tenant)
		if slices.Contains(names, in.Agent) {
			return &modelOutput{newModel(c, in.Agent, stored)}, nil
		}
		err = cmp.Or(failed, err)
	}
	if err != nil {
		return nil, httpapi.ProblemOf(err).ForOpenAI()
	}
	return &modelOutput{newModel(c, in.Agent, a.Created)}, nil
}

func newModel(c *httpapi.Caller, name string, created time.Time) Model {
	return Model{ID: name, Object: "model", Created: created.Unix(), OwnedBy: c.Tenant.ID()}
}

// serve answers a request of a model API: with the agent that the request names as its model, or else
// through a route of the tenant's gateway.
func (x *Models) serve(w http.ResponseWriter, req *http.Request, c *httpapi.Caller, p *agentmodel.Protocol) error {
	b, err := httpapi.ReadJSONBody(req)
	if err != nil {
		return err
	}
	if served, err := x.route(w, req, c, b); served || err != nil {
		return err
	}
	err = x.answer(w, req, c, p, b)
	if known, ok := errors.AsType[*agentmodel.Error](err); ok {
		return modelProblem(known)
	}
	return err
}

// route serves a request through a route of the tenant's gateway, if a route has the request's model.
// End users have no access to routes.
func (x *Models) route(
	w http.ResponseWriter,
	req *http.Request,
	c *httpapi.Caller,
	body []byte,
) (served bool, err error) {
	if c.Token != nil {
		return false, nil
	}
	return x.Routed.Serve(w, req, c, body)
}

// count serves a request to count the tokens of a message. Only routes of the gateway can count
// them.
func (x *Models) count(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	b, err := httpapi.ReadJSONBody(req)
	if err != nil {
		return err
	}
	if served, err := x.Routed.Serve(w, req, c, b); served || err != nil {
		return err
	}
	return modelProblem(errNoCount)
}

// answer starts the run of a request, or resumes the run whose calls the request answers, and
// responds with the answer.
func (x *Models) answer(
	w http.ResponseWriter,
	req *http.Request,
	c *httpapi.Caller,
	p *agentmodel.Protocol,
	body []byte,
) error {
	var q *agentmodel.Request
	parse := func() (err error) { q, err = agentmodel.ParseRequest(p, body); return err }
	if err := c.Parse(req.Context(), x.Admission, len(body), parse); err != nil {
		return err
	}
	thread := req.Header.Get(httpapi.ThreadHeader)
	if thread != "" {
		if err := q.SetThread(httpapi.ThreadHeader, thread); err != nil {
			return err
		}
	}
	key, err := runs.KeyOf(req, append(body[:len(body):len(body)], thread...))
	if err != nil {
		return err
	}
	l, part, err := x.launch(req.Context(), c, q, key)
	if err != nil {
		return err
	}
	c.ReleaseBody()
	q.Thread, q.After = part.Run.Thread, part.After
	if l != nil {
		l.Attached.Store(key == runs.Key{}) // a client with a key can ask again
		defer l.Follow()()
	}
	events := part.events(req.Context(), c.Tenant, x.Runs.Follow(c, part.Run, part.After).All(req.Context()))
	return agentmodel.Serve(w, req, q, events, c.Response.Wait,
		agentmodel.Timeouts{Response: x.Timeouts.Response, Part: x.Timeouts.Write})
}

// A part is the part of a run that belongs to one request: from the run's position before the
// request to its end or next pause.
type part runs.Earlier

// launch starts or resumes the run of a request, and returns the request's part of the run. If an
// earlier request with the same key already did so, launch returns the part of that request. l is nil
// if this server no longer executes the run.
func (x *Models) launch(
	ctx context.Context,
	c *httpapi.Caller,
	q *agentmodel.Request,
	key runs.Key,
) (l *runs.ActiveRun, p *part, err error) {
	p = &part{}
	var known *runs.Earlier
	if q.Run == "" {
		input := agent.Input{RunID: journal.NewRunID(), Messages: q.Messages, Metadata: q.Metadata}
		var ref agents.Ref
		if ref, err = agents.ParseRef(q.Model, 0); err != nil {
			return nil, nil, err
		}
		l, known, err = x.begin(ctx, c, ref, input, q, key)
	} else {
		l, known, err = x.resume(ctx, c, q, key, p)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case known != nil:
		return x.Runs.Active.Get(c.Tenant.ID(), known.Run.ID), (*part)(known), nil
	}
	p.After = l.From
	p.Run, err = x.Runs.Find(ctx, c, l.ID)
	return l, p, err
}

func clientOf(q *agentmodel.Request) runs.Client {
	return runs.Client{Tools: q.Tools, Params: q.Params, Choice: q.Choice, Check: q.Check()}
}

// resume resumes the run of a request, and sets p.Before to the usage of the run until now.
func (x *Models) resume(
	ctx context.Context,
	c *httpapi.Caller,
	q *agentmodel.Request,
	key runs.Key,
	p *part,
) (*runs.ActiveRun, *runs.Earlier, error) {
	if info, err := c.Run(ctx, q.Run); err == nil {
		if name, _, _ := strings.Cut(q.Model, "@"); info.Agent != name {
			return nil, nil, &agentmodel.Error{Status: http.StatusConflict, Param: "model", Code: "model_mismatch",
				Message: fmt.Sprintf(
					"model is %.80q, and the tool results are for run %s of the agent %q: ask with the model that made the calls",
					q.Model, q.Run, info.Agent,
				)}
		}
		p.Before = info.Usage
	}
	return x.Runs.ResumeOnce(ctx, c, q.Run, q.Answers, clientOf(q), key)
}

// events returns the events of the part. The event that ends or pauses the run then has the usage
// of the part, not of the whole run.
func (p *part) events(
	ctx context.Context,
	t *store.Tenant,
	events iter.Seq2[abi.Event, error],
) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		for e, err := range events {
			used := e.Usage
			if e.Type == abi.EventRunPaused {
				if info, err := t.Run(ctx, p.Run.ID); err == nil {
					used = &info.Usage
				}
			}
			last := e.Type == abi.EventRunPaused || e.Type == abi.EventRunFinished
			if used != nil && last {
				e.Usage = &abi.Usage{
					PromptTokens:     used.PromptTokens - p.Before.PromptTokens,
					CompletionTokens: used.CompletionTokens - p.Before.CompletionTokens,
					TotalTokens:      used.TotalTokens - p.Before.TotalTokens,
				}
			}
			if !yield(e, err) || last { // a repeated request gets no events of later ones
				return
			}
		}
	}
}

// modelProblem converts an error of package agentmodel to a problem.
func modelProblem(e *agentmodel.Error) *httpapi.Problem {
	code := api.CodeInvalid
	switch {
	case e.Status == http.StatusNotFound:
		code = api.CodeNotFound
	case e.Status == http.StatusBadGateway, e.Status == http.StatusTooManyRequests, e.Code == string(abi.CodeModel):
		code = api.CodeModelFailed
	case e.Status == http.StatusServiceUnavailable:
		code = api.CodeUnavailable
	case e.Status >= 500:
		code = api.CodeRunFailed
	case e.Status == http.StatusConflict:
		code = api.CodeConflict
	}
	p := httpapi.NewProblem(code, "%s", e.Message)
	p.Status, p.OpenAI = e.Status, &api.OpenAIError{Message: e.Message, Type: e.Type()}
	if e.Param != "" {
		p.OpenAI.Param = &e.Param
	}
	if e.Code != "" {
		p.OpenAI.Code = &e.Code
	}
	return p.WithHeader(e.Header)
}
