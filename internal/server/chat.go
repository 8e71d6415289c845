package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/chat"
)

// completions are OpenAI's endpoints, with agents as models.
type completions struct{ server *Server }

// maxConversation is how long a request with a conversation may be, in bytes.
const maxConversation = 8 << 20

type modelsOutput struct {
	Body struct {
		Object string      `json:"object" enum:"list"`
		Data   []ChatModel `json:"data" nullable:"false"`
	}
}

type modelOutput struct{ Body ChatModel }

// A ChatModel is an agent as clients of OpenAI's API see it.
type ChatModel struct {
	ID      string `json:"id" doc:"The agent's name."`
	Object  string `json:"object" enum:"model"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (x *completions) routes(s *Server) {
	const tag = "openai"
	route(s, Route{ID: "list-models", Method: "GET", Path: "/v1/models", Scope: AgentsRead, Tag: tag, Summary: "List agents as OpenAI models"}, x.models)
	route(s, Route{ID: "get-model", Method: "GET", Path: "/v1/models/{agent}", Scope: AgentsRead, Tag: tag, Summary: "Show an agent as an OpenAI model"}, x.model)
	s.raw(Route{ID: "chat-completions", Method: "POST", Path: "/v1/chat/completions", Scope: RunsWrite, Tag: tag, Body: maxConversation, Input: true,
		Summary: "Create a chat completion with an agent as the model",
		About: `With stream: true, the response is a stream of chunks. Tools of the request run in the client: they are returned as tool calls, and the
next request, with their results and the same model, continues the same run. Model parameters come from the agent; those in the request are ignored. Problems
have an error in OpenAI's format. If the client disconnects, the run ends.`}, describeChat, x.complete)
}

func describeChat(op *huma.Operation, _ huma.Registry) {
	object := &huma.Schema{Type: "object", Description: "OpenAI's chat completion."}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
		Schema: objectSchema("OpenAI's request for a chat completion.", map[string]string{"model": "string", "messages": "array"}, "tools", "stream", "stream_options", "metadata")}}}
	op.Responses["200"] = &huma.Response{Description: "The completion in OpenAI's format", Content: map[string]*huma.MediaType{
		"application/json": {Schema: object}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
}

// objectSchema is the schema of an object of another API: what it must have, with
// types, and what else means something here.
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

func (x *completions) models(ctx context.Context, c *Caller, _ *struct{}) (*modelsOutput, error) {
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

func (x *completions) model(ctx context.Context, c *Caller, in *AgentPath) (*modelOutput, error) {
	a, err := c.Tenant.Agent(ctx, in.Agent, 0)
	if err != nil {
		p := *problemOf(err)
		p.forOpenAI()
		return nil, &p
	}
	return &modelOutput{chatModel(c, a.Name, a.Created)}, nil
}

func chatModel(c *Caller, name string, created time.Time) ChatModel {
	return ChatModel{ID: name, Object: "model", Created: created.Unix(), OwnedBy: c.Tenant.ID()}
}

func (x *completions) complete(w http.ResponseWriter, req *http.Request, c *Caller) error {
	err := x.answer(w, req, c)
	var known *chat.Error
	if errors.As(err, &known) {
		return openAIProblem(known)
	}
	return err
}

func (x *completions) answer(w http.ResponseWriter, req *http.Request, c *Caller) error {
	b, err := readJSONBody(req)
	if err != nil {
		return err
	}
	var q *chat.Request
	if err := x.server.parse(req.Context(), c, len(b), func() error { q, err = chat.ParseRequest(b); return err }); err != nil {
		return err
	}
	runs := x.server.runs
	var l *live
	var before abi.Usage // that earlier requests were told of
	if q.Run != "" {
		if info, err := c.Tenant.Run(req.Context(), q.Run); err == nil {
			if info.Agent != q.Model {
				return &chat.Error{Status: http.StatusConflict, Param: "model", Code: "model_mismatch",
					Message: fmt.Sprintf("model is %.80q, and the tool results are for run %s of the agent %q: ask with the model that made the calls", q.Model, q.Run, info.Agent)}
			}
			before = info.Usage
		}
		l, err = runs.resume(req.Context(), c.Tenant, q.Run, q.Answers, q.Tools, nil)
	} else {
		l, err = runs.begin(req.Context(), c, q.Model, 0, agent.Input{RunID: agent.NewRunID(), Messages: q.Messages, Metadata: q.Metadata}, q.Tools, nil)
	}
	if err != nil {
		return err
	}
	c.bodyRead()
	l.attached.Store(true)
	defer l.follow()()
	info, err := runs.find(req.Context(), c.Tenant, l.id)
	if err != nil {
		return err
	}
	f := &follower{runs: runs, tenant: c.Tenant, run: l.id, after: l.from, hide: hiddenIn(info.Modules)}
	return chat.Serve(w, req, q, f.counted(req.Context(), before))
}

// counted are all events, with what was used since before where the request ends: at the
// end of the run, or where it pauses.
func (f *follower) counted(ctx context.Context, before abi.Usage) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		for e, err := range f.all(ctx) {
			used := e.Usage
			if e.Type == abi.EventRunPaused {
				if info, err := f.tenant.Run(ctx, f.run); err == nil {
					used = &info.Usage
				}
			}
			if used != nil && (e.Type == abi.EventRunPaused || e.Type == abi.EventRunFinished) {
				e.Usage = &abi.Usage{PromptTokens: used.PromptTokens - before.PromptTokens, CompletionTokens: used.CompletionTokens - before.CompletionTokens,
					TotalTokens: used.TotalTokens - before.TotalTokens}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// all are the events from here on, as they are shown. What goes no further here ends
// with an error.
func (f *follower) all(ctx context.Context) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		ended := false
		for {
			lines, err := f.more(ctx, func() {})
			if err != nil || len(lines) == 0 {
				if !ended {
					yield(abi.Event{}, &journal.Error{Run: f.run, Err: errors.Join(err, errCutOff)})
				}
				return
			}
			for _, l := range lines {
				var e abi.Event
				if l.data == nil {
					continue
				}
				if err := json.Unmarshal(l.data, &e); err != nil {
					continue
				}
				ended = e.Type == abi.EventRunFinished || e.Type == abi.EventRunPaused
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// openAIProblem is what package chat says is wrong.
func openAIProblem(e *chat.Error) *Problem {
	code := codeInvalid
	switch {
	case e.Status == http.StatusBadGateway:
		code = codeModelFailed
	case e.Status == http.StatusServiceUnavailable:
		code = codeUnavailable
	case e.Status >= 500:
		code = codeRunFailed
	case e.Status == http.StatusConflict:
		code = codeConflict
	}
	p := problem(code, "%s", e.Message)
	p.Status, p.header, p.OpenAI = e.Status, e.Header, &openAIError{Message: e.Message, Type: e.Type()}
	if e.Param != "" {
		p.OpenAI.Param = &e.Param
	}
	if e.Code != "" {
		p.OpenAI.Code = &e.Code
	}
	return p
}

// ofOpenAI are the paths of OpenAI's API, also of what is not here: its clients pass over
// what is wrong otherwise.
var ofOpenAI = regexp.MustCompile(`^/v1/(chat|models|responses|completions|embeddings|audio|images|files|batches|moderations|assistants|threads)(/|$)`)

// forOpenAI puts into a problem what OpenAI's clients read of it.
func (p *Problem) forOpenAI() {
	if p.OpenAI != nil {
		return
	}
	code := strings.TrimPrefix(p.Type, problemType)
	e := chat.Error{Status: p.Status}
	p.OpenAI = &openAIError{Message: p.Detail, Type: e.Type(), Code: &code}
}

var errCutOff = errors.New("its events do not come any more")

// openAIError is what is wrong, as OpenAI's clients read it.
type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}
