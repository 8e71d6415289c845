package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Request is a request for a completion.
type Request struct {
	Model    string // the name of the agent
	Messages []abi.Message
	Tools    []abi.Tool // tools that run in the client
	Metadata abi.Params
	// Run is the run to resume, with Answers by the ids of its interrupts. If it is empty, a
	// new run starts with Messages.
	Run     string
	Answers map[string]json.RawMessage

	stream bool
	usage  bool // report usage at the end of a stream
}

// body holds the fields of a request that the server uses or rejects. It ignores all others.
type body struct {
	Model         string                     `json:"model"`
	Messages      []abi.Message              `json:"messages"`
	Tools         []toolSpec                 `json:"tools"`
	Stream        bool                       `json:"stream"`
	StreamOptions *streamOptions             `json:"stream_options"`
	Metadata      map[string]json.RawMessage `json:"metadata"`
	N             *int                       `json:"n"`
	ToolChoice    json.RawMessage            `json:"tool_choice"`
	Modalities    []string                   `json:"modalities"`
	Functions     json.RawMessage            `json:"functions"`
	Logprobs      bool                       `json:"logprobs"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type toolSpec struct {
	Type     string   `json:"type"`
	Function abi.Tool `json:"function"`
}

// Limits on a request.
const (
	maxMessages = 10_000
	maxTools    = 128
)

// ParseRequest parses a request. It rejects requests for unsupported features, such as log
// probabilities. It ignores parameters of the model, such as temperature, since the agent sets them.
// The error is an [*Error].
func ParseRequest(b []byte) (*Request, error) {
	var in body
	if _, err := abijson.Decode(b, &in); err != nil {
		return nil, badf("", "the body is no request for a chat completion: %v", err)
	}
	switch {
	case in.Model == "":
		return nil, badf("model", "model is missing; it names an agent, see GET /v1/models")
	case len(in.Messages) == 0:
		return nil, badf("messages", "messages is empty; want a conversation")
	case len(in.Messages) > maxMessages:
		return nil, badf("messages", "there are %d messages; at most %d are taken", len(in.Messages), maxMessages)
	case in.N != nil && *in.N != 1:
		return nil, badf("n", "n is %d; a run has one answer, so want 1", *in.N)
	case in.Logprobs:
		return nil, badf("logprobs", "agents do not return log probabilities; remove logprobs")
	case in.Functions != nil:
		return nil, badf("functions", "functions are not supported; use tools")
	case slices.ContainsFunc(in.Modalities, func(m string) bool { return m != "text" }):
		return nil, badf("modalities", "agents answer with text only; remove modalities")
	case len(in.Tools) > maxTools:
		return nil, badf("tools", "there are %d tools; at most %d are taken", len(in.Tools), maxTools)
	}
	r := &Request{
		Model:    in.Model,
		Messages: in.Messages,
		Metadata: in.Metadata,
		stream:   in.Stream,
		usage:    in.StreamOptions != nil && in.StreamOptions.IncludeUsage,
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if err := contract.CheckMessage(m); err != nil {
			return nil, badf(fmt.Sprintf("messages[%d]", i), "messages[%d]: %v", i, err)
		}
		m.ID, m.Origin, m.Extra = "", "", nil // the host sets these
	}
	if err := r.addTools(in.Tools, in.ToolChoice); err != nil {
		return nil, err
	}
	return r, r.continues()
}

// addTools adds the client's tools, unless tool_choice is "none". It rejects a tool_choice that is
// set to anything but "none", "auto" or null.
func (r *Request) addTools(specs []toolSpec, choice json.RawMessage) error {
	switch c := strings.TrimSpace(string(choice)); c {
	case "", `"auto"`, "null":
	case `"none"`:
		return nil
	default:
		return badf("tool_choice", "tool_choice is %.80s; the agent chooses the tools, so want auto or none", c)
	}
	for i, s := range specs {
		if s.Type != "function" && s.Type != "" {
			return badf("tools", "tools[%d] is of type %q; want function", i, s.Type)
		}
		if err := contract.CheckTool(&s.Function); err != nil {
			return badf("tools", "tools[%d]: %v", i, err)
		}
		r.Tools = append(r.Tools, s.Function)
	}
	return nil
}

// continues sets Run and Answers if the conversation ends with results of the client's tools. The
// results resume the run that called the tools. It fails if they belong to several runs.
func (r *Request) continues() error {
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role == abi.RoleTool; i-- {
		m := &r.Messages[i]
		run, interrupt, ok := splitCallID(m.ToolCallID)
		switch {
		case !ok:
			continue // not the id of a call that a run made
		case r.Run != "" && r.Run != run:
			return badf("messages", "the results at the end of the conversation belong to several runs, %s and %s", r.Run, run)
		}
		if r.Answers[interrupt] != nil {
			continue // the later result replaces it
		}
		answer, err := abijson.Marshal(abi.Result{Content: m.Content})
		if err != nil {
			return badf("messages", "messages[%d]: %v", i, err)
		}
		r.Run = run
		if r.Answers == nil {
			r.Answers = map[string]json.RawMessage{}
		}
		r.Answers[interrupt] = answer
	}
	return nil
}

// callPrefix starts the ids of the client's tool calls. An id contains the run and the interrupt
// that the call's result answers.
const callPrefix = "call_"

func callID(run, interrupt string) string { return callPrefix + run + "." + interrupt }

func splitCallID(id string) (run, interrupt string, ok bool) {
	rest, ok := strings.CutPrefix(id, callPrefix)
	if !ok {
		return "", "", false
	}
	run, interrupt, ok = strings.Cut(rest, ".")
	return run, interrupt, ok && strings.HasPrefix(run, "run_") && interrupt != ""
}

// An Error is an error in OpenAI's format.
type Error struct {
	Status  int
	Message string
	Param   string // the invalid part of the request
	Code    string
	Header  http.Header // additional headers of the response
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func badf(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Param: param}
}

// Type returns OpenAI's type for the error's status.
func (e *Error) Type() string {
	kind := "invalid_request_error"
	switch {
	case e.Status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.Status == http.StatusUnauthorized:
		kind = "authentication_error"
	case e.Status == http.StatusForbidden:
		kind = "permission_error"
	case e.Status >= 500:
		kind = "server_error"
	}
	return kind
}

// object returns the error's JSON.
func (e *Error) object() any {
	o := map[string]any{"message": e.Message, "type": e.Type(), "param": nil, "code": nil}
	if e.Param != "" {
		o["param"] = e.Param
	}
	if e.Code != "" {
		o["code"] = e.Code
	}
	return map[string]any{"error": o}
}

// Write responds with the error.
func (e *Error) Write(w http.ResponseWriter) {
	maps.Copy(w.Header(), e.Header)
	b, err := abijson.Marshal(e.object())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(b, '\n'))
}
