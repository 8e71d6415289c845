package middleware

import (
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/schema"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Tool is the description of a tool and the function that runs the tool.
type Tool struct {
	abi.Tool
	// Run runs the tool. If it returns nil and no error, the result consists of the chunks
	// that it sent with [Context.Send].
	Run func(ctx *Context, call *Call) (*abi.Result, error)
	// ReturnDirectly ends the run with the tool's result, unless the result is an error.
	ReturnDirectly bool
}

// NewTool returns a tool that calls fn. Its parameters are a JSON Schema of the struct A.
// Fields are required unless they are pointers or have the option omitempty or omitzero;
// `doc` tags describe them. Arguments that do not fit are an error result, which the model
// can correct. R is a string, an [abi.Content], an *[abi.Result], or any other type that
// can be encoded as JSON.
func NewTool[A, R any](name, description string, fn func(ctx *Context, args A) (R, error)) Tool {
	parameters := (&schema.Maker{Required: true}).Schema(reflect.TypeFor[A]()).Append(nil)
	return Tool{
		Tool: abi.Tool{Name: name, Description: description, Parameters: parameters},
		Run: func(ctx *Context, call *Call) (*abi.Result, error) {
			var args A
			if err := call.Args(&args); err != nil {
				return abi.ErrorResult(err.Error()), nil
			}
			value, err := fn(ctx, args)
			if err != nil {
				return nil, err
			}
			return resultOf(value)
		},
	}
}

func resultOf(value any) (*abi.Result, error) {
	switch v := value.(type) {
	case string:
		return abi.TextResult(v), nil
	case abi.Content:
		return &abi.Result{Content: v}, nil
	case *abi.Result:
		return v, nil
	}
	b, err := abijson.MarshalValue(value)
	if err != nil {
		return nil, jsoncodec.Wrap("encode the result", err)
	}
	return abi.TextResult(string(b)), nil
}

// WithTools returns a middleware that adds tools to the agent and runs them. It panics if a tool is
// invalid or has no Run, or if two tools have the same name.
func WithTools(tools ...Tool) Middleware {
	for i, t := range tools {
		if err := contract.CheckTool(&t.Tool); err != nil {
			panic("middleware: WithTools: " + err.Error())
		}
		if t.Run == nil {
			panic("middleware: WithTools: tool " + strconv.Quote(t.Name) + " has no Run")
		}
		if slices.ContainsFunc(tools[:i], func(o Tool) bool { return o.Name == t.Name }) {
			panic("middleware: WithTools: two tools are named " + strconv.Quote(t.Name))
		}
	}
	return &toolset{tools: slices.Clone(tools)}
}

type toolset struct{ tools []Tool }

// find returns the index of the tool with the given name, or -1.
func (s *toolset) find(name string) int {
	return slices.IndexFunc(s.tools, func(t Tool) bool { return t.Name == name })
}

// BeforeAgent adds the tools.
func (s *toolset) BeforeAgent(_ *Context, run *AgentStart) error {
	for i := range s.tools {
		if err := run.AddTool(s.tools[i].Tool); err != nil {
			return err
		}
		if s.tools[i].ReturnDirectly {
			run.ReturnDirectly = append(run.ReturnDirectly, s.tools[i].Name)
		}
	}
	return nil
}

// CallTool runs one of the tools.
func (s *toolset) CallTool(ctx *Context, call *Call) (*abi.Result, error) {
	return s.tools[s.find(call.Name)].Run(ctx, call)
}

// runnerOf returns the middleware that runs a tool: the toolset that has it, or else the
// middleware with its own CallTool.
func runnerOf(list []CallToolHook, tool string) (runs CallToolHook) {
	for _, h := range list {
		set, ok := h.(*toolset)
		switch {
		case !ok:
			runs = h
		case set.find(tool) >= 0:
			return h
		}
	}
	return runs
}

func (*Call) collect(m *Module, _ abi.Hook) any { return collect[CallToolHook](m) }

func (*Call) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.CallToolInput, abijson.CallToolAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	runs := runnerOf(hooks[CallToolHook](s), v.in.Call.Name)
	if runs == nil {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: "this module has no tool " + strconv.Quote(v.in.Call.Name)}
	}
	v.ctx.textKind = abi.ChunkToolResult
	result, err := runs.CallTool(v.ctx, &Call{Call: v.in.Call})
	if err != nil {
		return nil, err
	}
	if result == nil && !v.ctx.sent {
		return nil, errors.New("tool " + v.in.Call.Name + " returned neither a result nor an error")
	}
	v.out.Result = result
	return &v.out, nil
}
