package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/chat"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Chat serves OpenAI's endpoints, with agents as models.
type Chat struct {
	Runs      *runs.Service
	Admission *admission.Controller
	Timeouts  *httpapi.Timeouts
}

// maxConversation limits a request with a conversation, in bytes.
const maxConversation = 8 << 20

type modelsOutput struct {
	Body struct {
		Object string      `json:"object" enum:"list"`
		Data   []ChatModel `json:"data" nullable:"false"`
	}
}

type modelOutput struct{ Body ChatModel }

// A ChatModel is an agent in the format of OpenAI's models.
type ChatModel struct {
	ID      string `json:"id" doc:"The agent's name."`
	Object  string `json:"object" enum:"model"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// Routes registers the endpoints that are compatible with OpenAI.
func (x *Chat) Routes(rt *httpapi.Router) {
	const tag = "openai"
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-models",
		Method:  "GET",
		Path:    "/v1/models",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List agents as OpenAI models",
	}, x.models)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-model",
		Method:  "GET",
		Path:    "/v1/models/{agent}",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show an agent as an OpenAI model",
	}, x.model)
	rt.Raw(httpapi.Route{
		ID:      "chat-completions",
		Method:  "POST",
		Path:    "/v1/chat/completions",
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Body:    maxConversation,
		Input:   true,
		Summary: "Create a chat completion with an agent as the model",
		About: `With stream: true, the response is a stream of chunks. Tools of the request run in the client: they are
returned as tool calls, and the next request, with their results and the same model, continues the same run. Model
parameters come from the agent; those in the request are ignored. Problems have an error in OpenAI's format. If the
client disconnects, the run ends.`,
	}, describeChat, x.complete)
}

func describeChat(op *huma.Operation, _ huma.Registry) {
	object := &huma.Schema{Type: "object", Description: "OpenAI's chat completion."}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
		Schema: objectSchema("OpenAI's request for a chat completion.",
			map[string]string{"model": "string", "messages": "array"}, "tools", "stream", "stream_options", "metadata")}}}
	op.Responses["200"] = &huma.Response{
		Description: "The completion in OpenAI's format",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: object}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
	}
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
		s.Properties[name] = &huma.Schema{}
	}
	return s
}

func (x *Chat) models(ctx context.Context, c *httpapi.Caller, _ *struct{}) (*modelsOutput, error) {
	list, err := c.Tenant.AgentNames(ctx)
	if err != nil {
		return nil, err
	}
	out := &modelsOutput{}
	out.Body.Object, out.Body.Data = "list", []ChatModel{}
	for _, a := range list {
		out.Body.Data = append(out.Body.Data, chatModel(c, a.Name, a.Created))
	}
	return out, nil
}

func (x *Chat) model(ctx context.Context, c *httpapi.Caller, in *agents.AgentPath) (*modelOutput, error) {
	a, err := c.Tenant.Agent(ctx, in.Agent, 0)
	if err != nil {
		return nil, httpapi.ProblemOf(err).ForOpenAI()
	}
	return &modelOutput{chatModel(c, a.Name, a.Created)}, nil
}

func chatModel(c *httpapi.Caller, name string, created time.Time) ChatModel {
	return ChatModel{ID: name, Object: "model", Created: created.Unix(), OwnedBy: c.Tenant.ID()}
}

func (x *Chat) complete(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	err := x.answer(w, req, c)
	var known *chat.Error
	if errors.As(err, &known) {
		return openAIProblem(known)
	}
	return err
}

// answer starts the run of a request, or resumes the run whose calls the request answers, and
// responds with the completion.
func (x *Chat) answer(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	b, err := httpapi.ReadJSONBody(req)
	if err != nil {
		return err
	}
	var q *chat.Request
	parse := func() error { q, err = chat.ParseRequest(b); return err }
	if err := c.Parse(req.Context(), x.Admission, len(b), parse); err != nil {
		return err
	}
	var l *runs.ActiveRun
	var before abi.Usage // reported by earlier requests
	if q.Run != "" {
		if info, err := c.Tenant.Run(req.Context(), q.Run); err == nil {
			if info.Agent != q.Model {
				return &chat.Error{Status: http.StatusConflict, Param: "model", Code: "model_mismatch",
					Message: fmt.Sprintf(
						"model is %.80q, and the tool results are for run %s of the agent %q: ask with the model that made the calls",
						q.Model,
						q.Run,
						info.Agent,
					)}
			}
			before = info.Usage
		}
		l, err = x.Runs.Resume(req.Context(), c, q.Run, q.Answers, q.Tools, nil)
	} else {
		input := agent.Input{RunID: journal.NewRunID(), Messages: q.Messages, Metadata: q.Metadata}
		l, err = x.Runs.Begin(req.Context(), c, q.Model, 0, input, q.Tools, nil)
	}
	if err != nil {
		return err
	}
	c.ReleaseBody()
	l.Attached.Store(true)
	defer l.Follow()()
	info, err := x.Runs.Find(req.Context(), c.Tenant, l.ID)
	if err != nil {
		return err
	}
	events := x.Runs.Follow(c, info, l.From).All(req.Context())
	return chat.Serve(w, req, q, subtractUsage(req.Context(), c.Tenant, l.ID, events, before), c.Response.Wait,
		chat.Timeouts{Response: x.Timeouts.Response, Part: x.Timeouts.Write})
}

// subtractUsage returns events, with before subtracted from the usage in the event that ends or
// pauses the run. before is the usage that earlier requests reported.
func subtractUsage(
	ctx context.Context,
	t *store.Tenant,
	run string,
	events iter.Seq2[abi.Event, error],
	before abi.Usage,
) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		for e, err := range events {
			used := e.Usage
			if e.Type == abi.EventRunPaused {
				if info, err := t.Run(ctx, run); err == nil {
					used = &info.Usage
				}
			}
			if used != nil && (e.Type == abi.EventRunPaused || e.Type == abi.EventRunFinished) {
				e.Usage = &abi.Usage{
					PromptTokens:     used.PromptTokens - before.PromptTokens,
					CompletionTokens: used.CompletionTokens - before.CompletionTokens,
					TotalTokens:      used.TotalTokens - before.TotalTokens,
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// openAIProblem returns an error of package chat as a problem.
func openAIProblem(e *chat.Error) *httpapi.Problem {
	code := api.CodeInvalid
	switch {
	case e.Status == http.StatusBadGateway:
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
