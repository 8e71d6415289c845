package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Tools returns the server's tools under their own names. It omits tools that cannot be declared to
// a model, because the name or the schema is invalid, the declaration is too large or the name is a
// duplicate, and logs them to Options.Logger. It fails if the server is unavailable, has no tools or
// more than Options.MaxTools, or does not list them within Options.Timeout.
func (s *Server) Tools(ctx context.Context) ([]tool.Tool, error) {
	if err := s.unavailable(); err != nil {
		return nil, err
	}
	limit := fmt.Errorf("it did not list its tools within %v", s.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.Timeout, limit)
	defer cancel()
	listed, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	var tools []tool.Tool
	seen := map[string]bool{}
	for _, t := range listed {
		declaration, err := s.declaration(t)
		if err == nil && seen[t.Name] {
			err = errors.New("the server lists it twice")
		}
		if err != nil {
			s.o.Logger.Warn("a tool of an MCP server is left out", "server", s.o.Name, "tool", shortened(t.Name), "error", err)
			continue
		}
		seen[t.Name] = true
		tools = append(tools, &remote{s, declaration})
	}
	return tools, nil
}

// list reads all pages of the server's list of tools.
func (s *Server) list(ctx context.Context) ([]*sdk.Tool, error) {
	var all []*sdk.Tool
	params := &sdk.ListToolsParams{}
	// Pages may be empty, so they are limited, too.
	for range s.o.MaxTools + 1 {
		page, err := s.session.ListTools(ctx, params)
		if err != nil {
			err = s.explain(ctx, err)
			if answer := answered(err); answer != nil && answer.Code == jsonrpc.CodeMethodNotFound {
				return nil, errors.New("it has no tools")
			}
			return nil, err
		}
		all = append(all, page.Tools...)
		if len(all) > s.o.MaxTools {
			return nil, fmt.Errorf("it has more than %d tools, which is the limit", s.o.MaxTools)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("its list of tools has more than %d pages", s.o.MaxTools)
}

// declaration returns a tool's declaration for the model. The error is the reason for omitting the
// tool.
func (s *Server) declaration(t *sdk.Tool) (abi.Tool, error) {
	raw, ok := t.Meta[schemaKey].(string)
	if !ok {
		return abi.Tool{}, errors.New("it has no inputSchema")
	}
	d := abi.Tool{
		Name:        t.Name,
		Description: strings.ToValidUTF8(t.Description, "\ufffd"),
		Parameters:  json.RawMessage(raw),
	}
	if d.Description == "" {
		d.Description = strings.ToValidUTF8(t.Title, "\ufffd")
	}
	if a := t.Annotations; a != nil {
		d.Idempotent = a.IdempotentHint || a.ReadOnlyHint
		d.ReadOnly = a.ReadOnlyHint
		d.Destructive = !a.ReadOnlyHint && a.DestructiveHint != nil && *a.DestructiveHint
	}
	if size := len(d.Name) + len(d.Description) + len(d.Parameters); size > s.o.MaxDeclaration {
		return d, fmt.Errorf("its declaration has %d bytes; at most %d are allowed", size, s.o.MaxDeclaration)
	}
	var err error
	if d.Parameters, err = schema(d.Parameters); err != nil {
		return d, fmt.Errorf("its inputSchema %w", err)
	}
	return d, contract.CheckTool(&d)
}

// schema checks the parts of a JSON Schema that every model endpoint requires, and returns the
// schema without white space.
func schema(raw json.RawMessage) (json.RawMessage, error) {
	var known struct {
		Type       json.RawMessage            `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := jsoncodec.Valid(raw); err != nil {
		return nil, fmt.Errorf("is not strict JSON: %w", err)
	}
	if object(raw) == nil {
		return nil, errors.New("is not an object")
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	if string(known.Type) != `"object"` {
		return nil, fmt.Errorf(`has the type %s; want "object"`, or(shortened(string(known.Type)), "nothing"))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func shortened(s string) string {
	if len(s) > 100 {
		s = truncate.Text(s, 100) + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// A remote is a tool of a server.
type remote struct {
	server      *Server
	declaration abi.Tool
}

func (t *remote) Declaration() abi.Tool { return t.declaration }

// Call calls the tool. If ctx is done, it returns the cause of ctx. Other errors are of type
// *abi.Error. The code is abi.CodeInvalid if the arguments are not a JSON object,
// abi.CodeUnavailable if the server is gone, and abi.CodeLimit if it did not answer in time. The code
// is abi.CodeTool if the server rejected the call, asked for input or exited during the call.
func (t *remote) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	s := t.server
	arguments, err := callArguments(call.Arguments)
	if err != nil {
		return nil, err
	}
	if err := s.unavailable(); err != nil {
		return nil, err
	}
	ctx, cancel := s.callContext(ctx, t.declaration.Name)
	defer cancel()
	res, err := s.session.CallTool(ctx, &sdk.CallToolParams{Name: t.declaration.Name, Arguments: arguments})
	if err != nil {
		return nil, t.failure(ctx, err)
	}
	if res.NeedsInput() {
		return nil, &abi.Error{
			Code:    abi.CodeTool,
			Message: fmt.Sprintf("%s asks for input from a person, which this agent does not support", s),
		}
	}
	return result(res), nil
}

func callArguments(arguments string) (json.RawMessage, error) {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	raw := json.RawMessage(arguments)
	if err := jsoncodec.Valid(raw); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("the arguments are wrong: %v", err)}
	}
	if object(raw) == nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "the arguments are wrong: want a JSON object"}
	}
	return raw, nil
}

// callContext returns a context for a call of the named tool. It is done when ctx is done, the call
// timeout has passed, or the server is closed.
func (s *Server) callContext(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.calls, func() { cancel(s.unavailable()) })
	end := func() { stop(); cancel(nil) }
	if s.o.CallTimeout <= 0 {
		return ctx, end
	}
	limit := &abi.Error{
		Code:    abi.CodeLimit,
		Message: fmt.Sprintf("%s did not answer the call of %q within %v", s, name, s.o.CallTimeout),
	}
	ctx, cancelTimeout := context.WithTimeoutCause(ctx, s.o.CallTimeout, limit)
	return ctx, func() { cancelTimeout(); end() }
}

// failure returns the error for a failed call.
func (t *remote) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.server.closed() { // Close may stop the process before its calls end
		return t.server.unavailable()
	}
	notSent := errors.Is(err, sdk.ErrConnectionClosed)
	err = t.server.explain(ctx, err)
	answer := answered(err)
	switch {
	case answer != nil:
		return &abi.Error{Code: abi.CodeTool, Message: fmt.Sprintf("%s: %s", t.server, answer.Message)}
	case notSent:
		return t.server.unavailable()
	case t.server.conn != nil:
		return &abi.Error{Code: abi.CodeTool, Message: fmt.Sprintf("%s failed during the call: %v", t.server, err)}
	default:
		return &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s: %v", t.server, err)}
	}
}
