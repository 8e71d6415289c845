package middlewaretest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// appending returns a middleware that appends text to the instruction.
func appending(text string) middleware.Middleware {
	return middleware.WithInstructionFunc(func(_ *middleware.Context, instruction string) (string, error) {
		return instruction + text, nil
	})
}

func TestInstructions(t *testing.T) {
	t.Parallel()
	old := middleware.AgentMiddleware{AdditionalInstruction: "m"}
	for name, tc := range map[string]struct {
		middlewares []middleware.Middleware
		base, want  string
	}{
		"in order":            {[]middleware.Middleware{appending("|h1"), appending("|h2")}, "base", "base|h1|h2"},
		"older style first":   {[]middleware.Middleware{old, appending("|h1"), appending("|h2")}, "base", "base\n\nm|h1|h2"},
		"older style, alone":  {[]middleware.Middleware{old}, "", "m"},
		"on a line":           {[]middleware.Middleware{middleware.WithInstruction("a"), middleware.WithInstruction("b")}, "base", "base\na\nb"},
		"on the first line":   {[]middleware.Middleware{middleware.WithInstruction("a")}, "", "a"},
		"combined":            {[]middleware.Middleware{middleware.Combine(appending("1"), middleware.Combine(appending("2")), appending("3"))}, "", "123"},
		"nothing to be added": {[]middleware.Middleware{middleware.WithInstruction("")}, "base", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := middlewaretest.New(middleware.Options{}, tc.middlewares...).
				BeforeAgent(abi.BeforeAgentInput{Instruction: tc.base})
			require.NoError(t, err)
			if tc.want == "" {
				require.Nil(t, answer.Instruction)
				return
			}
			require.Equal(t, tc.want, *answer.Instruction)
		})
	}
}

func TestToolWrappersNest(t *testing.T) {
	t.Parallel()
	var log []string
	logging := func(name string) middleware.Middleware {
		return middleware.WithToolCallWrapper(
			func(_ *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
				log = append(log, name+"-before "+call.Arguments)
				call.Arguments += name
				result, err := next(call)
				log = append(log, name+"-after")
				return result, err
			},
		)
	}
	h := middlewaretest.New(middleware.Options{}, logging("h1"), logging("h2"))
	h.Tool = func(call abi.Call) (*abi.Result, error) {
		log = append(log, "tool "+call.Arguments)
		return abi.TextResult("t-ok"), nil
	}
	answer, err := h.WrapToolCall(abi.WrapToolCallInput{Call: abi.Call{Name: "t", Arguments: ""}})
	require.NoError(t, err)
	require.Equal(t, []string{"h1-before ", "h2-before h1", "tool h1h2", "h2-after", "h1-after"}, log)
	require.Nil(t, answer.Result, "what nobody changed is not sent")
}

func TestModelWrappersNest(t *testing.T) {
	t.Parallel()
	// The outer wrapper calls next twice; the inner one adds a message each time.
	outer := middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			if _, err := next(nil); err != nil {
				return nil, err
			}
			req.Messages.Append(abi.User("outer"))
			req.Model = "large"
			return next(req)
		},
	)
	inner := middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			req.Messages.Append(abi.User("inner"))
			if err := req.SetParam("n", 1); err != nil {
				return nil, err
			}
			response, err := next(req)
			if err == nil {
				response.Message.Content = abi.Text("W:" + response.Message.Content.String())
			}
			return response, err
		},
	)
	silent := middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, _ middleware.NextModel) (*abi.Response, error) {
			req.Messages.Delete(0, 1)
			return nil, nil
		},
	)
	h := middlewaretest.New(middleware.Options{}, outer, silent, inner)
	h.SetMessages(users(2)...)
	var seen [][]string
	h.Model = func(call middlewaretest.ModelCall) (*abi.Response, error) {
		seen = append(seen, append(texts(call.Messages), call.Model))
		require.Equal(t, abi.Params{"n": []byte("1")}, call.Params)
		return &abi.Response{Message: abi.Assistant("ok")}, nil
	}
	answer, err := h.WrapModel(abi.WrapModelInput{Request: abi.Request{Model: "small"}})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"text 1", "inner", "small"}, {"text 1", "outer", "inner", "large"}}, seen)
	require.Equal(t, "W:ok", answer.Response.Message.Content.String())
}

func TestWrapReplies(t *testing.T) {
	t.Parallel()
	first := abi.TextResult("first")
	for name, tc := range map[string]struct {
		wrap func(next middleware.NextTool) (*abi.Result, error)
		want string // the expected answer; "" for none
		err  string
	}{
		"nothing":            {func(middleware.NextTool) (*abi.Result, error) { return nil, nil }, "", ""},
		"nothing after next": {func(next middleware.NextTool) (*abi.Result, error) { _, _ = next(nil); return nil, nil }, "", ""},
		"an own one":         {func(middleware.NextTool) (*abi.Result, error) { return first, nil }, "first", ""},
		"an error":           {func(middleware.NextTool) (*abi.Result, error) { return first, errors.New("no") }, "", "no"},
		"the first of two replies": {func(next middleware.NextTool) (*abi.Result, error) {
			a, _ := next(nil)
			_, _ = next(nil)
			return a, nil
		}, "call 1", ""},
		"the last of two replies": {func(next middleware.NextTool) (*abi.Result, error) { _, _ = next(nil); return next(nil) }, "", ""},
		"changed in place": {func(next middleware.NextTool) (*abi.Result, error) {
			a, err := next(nil)
			a.IsError = true
			return a, err
		}, "call 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			h := middlewaretest.New(middleware.Options{}, middleware.WithToolCallWrapper(
				func(_ *middleware.Context, _ *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
					return tc.wrap(next)
				}))
			h.Tool = func(abi.Call) (*abi.Result, error) {
				calls++
				return abi.TextResult("call " + string(rune('0'+calls))), nil
			}
			answer, err := h.WrapToolCall(abi.WrapToolCallInput{})
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			if tc.want == "" {
				require.Nil(t, answer.Result)
				return
			}
			require.Equal(t, tc.want, answer.Result.Content.String())
		})
	}
}

type addArgs struct {
	A int    `json:"a" doc:"the first number"`
	B int    `json:"b"`
	C *int   `json:"c"`
	D string `json:"d,omitempty"`
}

func TestTools(t *testing.T) {
	t.Parallel()
	add := middleware.NewTool("add", "Adds.", func(_ *middleware.Context, args addArgs) (map[string]int, error) {
		if args.A < 0 {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: "negative"}
		}
		return map[string]int{"sum": args.A + args.B}, nil
	})
	raw := middleware.Tool{
		Tool: abi.Tool{Name: "raw"},
		Run: func(_ *middleware.Context, call *middleware.Call) (*abi.Result, error) {
			if call.Arguments == "" {
				return nil, nil
			}
			return &abi.Result{Content: abi.Text(call.Arguments), IsError: true}, nil
		},
	}
	same := middleware.NewTool("same", "",
		func(_ *middleware.Context, args struct{}) (*abi.Result, error) { return abi.TextResult("x"), nil })
	parts := middleware.NewTool("parts", "", func(_ *middleware.Context, args struct{}) (abi.Content, error) {
		return abi.Parts(abi.Part{Type: abi.PartText, Text: "p"}), nil
	})
	h := middlewaretest.New(middleware.Options{}, middleware.WithTools(add, same), callsTools{},
		middleware.AgentMiddleware{AdditionalTools: []middleware.Tool{raw, parts}})

	answer, err := h.BeforeAgent(abi.BeforeAgentInput{Tools: []abi.Tool{{Name: "there", Owner: "host"}}})
	require.NoError(t, err)
	require.Len(t, answer.Tools.Add, 4)
	require.JSONEq(
		t,
		`{"type":"object","properties":{"a":{"type":"integer","description":"the first number"},"b":{"type":"integer"},
		"c":{"type":"integer"},"d":{"type":"string"}},"required":["a","b"],"additionalProperties":false}`,
		string(answer.Tools.Add[0].Parameters),
	)
	_, err = h.BeforeAgent(abi.BeforeAgentInput{Tools: []abi.Tool{{Name: "raw", Owner: "host"}}})
	require.EqualError(t, err, `there is a tool "raw" already`)

	for name, tc := range map[string]struct{ tool, args, want, err string }{
		"json":          {"add", `{"a":1,"b":2}`, `{"content":"{\"sum\":3}"}`, ""},
		"bad arguments": {"add", `{"a":"1"}`, `{"content":"arguments of add: a: want a number, got a string (at byte 5)","is_error":true}`, ""},
		"unknown":       {"add", `{"z":1}`, `{"content":"arguments of add: unknown: z","is_error":true}`, ""},
		"fails":         {"add", `{"a":-1}`, "", "negative"},
		"no arguments":  {"same", ``, `{"content":"x"}`, ""},
		"raw":           {"raw", `{"x":1}`, `{"content":"{\"x\":1}","is_error":true}`, ""},
		"nothing":       {"raw", ``, "", "tool raw returned neither a result nor an error"},
		"content":       {"parts", `{}`, `{"content":[{"type":"text","text":"p"}]}`, ""},
		"not a toolset": {"elsewhere", `{}`, "", "tool elsewhere returned neither a result nor an error"},
	} {
		answer, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: tc.tool, Arguments: tc.args}})
		if tc.err != "" {
			require.EqualError(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		b, err := abijson.Marshal(answer.Result)
		require.NoError(t, err)
		require.JSONEq(t, tc.want, string(b), name)
	}
	only := middlewaretest.New(middleware.Options{}, middleware.WithTools(add))
	_, err = only.CallTool(abi.CallToolInput{Call: abi.Call{Name: "other"}})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeNotFound})
}

func TestToolsReturnDirectly(t *testing.T) {
	t.Parallel()
	run := func(*middleware.Context, *middleware.Call) (*abi.Result, error) { return abi.TextResult("ok"), nil }
	h := middlewaretest.New(middleware.Options{}, middleware.WithTools(
		middleware.Tool{Tool: abi.Tool{Name: "report"}, Run: run, ReturnDirectly: true},
		middleware.Tool{Tool: abi.Tool{Name: "search"}, Run: run},
	))
	out, err := h.BeforeAgent(abi.BeforeAgentInput{ReturnDirectly: []string{"t"}})
	require.NoError(t, err)
	require.Equal(t, []string{"t", "report"}, out.ReturnDirectly)
}

func TestToolsFunc(t *testing.T) {
	t.Parallel()
	tools := []abi.Tool{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for name, tc := range map[string]struct {
		fn   func(tools []abi.Tool) []abi.Tool
		want string
		err  string
	}{
		"the same":     {func(tools []abi.Tool) []abi.Tool { return tools }, `{}`, ""},
		"none":         {func([]abi.Tool) []abi.Tool { return nil }, `{"tools":{"remove":["a","b","c"]}}`, ""},
		"one removed":  {func(tools []abi.Tool) []abi.Tool { return append(tools[:1], tools[2]) }, `{"tools":{"remove":["b"]}}`, ""},
		"one added":    {func(tools []abi.Tool) []abi.Tool { return append(tools, abi.Tool{Name: "d"}) }, `{"tools":{"add":[{"name":"d"}]}}`, ""},
		"moved":        {func(tools []abi.Tool) []abi.Tool { return []abi.Tool{tools[2], tools[0]} }, `{"tools":[{"name":"c"},{"name":"a"}]}`, ""},
		"changed":      {func(tools []abi.Tool) []abi.Tool { tools[1].Description = "x"; return tools[:2] }, `{"tools":[{"name":"a"},{"name":"b","description":"x"}]}`, ""},
		"twice":        {func(tools []abi.Tool) []abi.Tool { return append(tools, tools[0]) }, "", `two tools are named "a"`},
		"without name": {func(tools []abi.Tool) []abi.Tool { return append(tools, abi.Tool{}) }, "", "invalid tool name"},
	} {
		h := middlewaretest.New(middleware.Options{}, middleware.WithToolsFunc(
			func(_ *middleware.Context, tools []abi.Tool, direct []string) ([]abi.Tool, []string, error) {
				return tc.fn(tools), direct, nil
			}))
		answer, err := h.BeforeAgent(abi.BeforeAgentInput{Tools: tools})
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		b, err := json.Marshal(answer)
		require.NoError(t, err)
		require.JSONEq(t, tc.want, string(b), name)
	}
}
