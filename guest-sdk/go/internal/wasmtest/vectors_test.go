package wasmtest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A vector is a file of testdata/abi: a hook's input and the expected answer. Hosts and
// SDKs in all languages use the same files.
type vector struct {
	Hook     abi.Hook      `json:"hook"`
	About    string        `json:"about"`
	Messages []abi.Message `json:"messages"` // the messages of the list in the input
	Input    abi.JSON      `json:"input"`
	Next     []struct {    // the calls of next, in order
		Patch abi.JSON `json:"patch"` // absent if there is none
		Reply abi.JSON `json:"reply"` // either a reply or an error
		Error abi.JSON `json:"error"`
	} `json:"next"`
	Stream []struct { // the calls of next_stream, recv and send, in order
		Call  string   `json:"call"`
		Given abi.JSON `json:"given"`
		Reply abi.JSON `json:"reply"`
		Error abi.JSON `json:"error"`
	} `json:"stream"`
	Answer abi.JSON `json:"answer"` // the expected answer; absent if the hook has no output or fails
	Error  abi.JSON `json:"error"`  // the expected error; absent if the hook succeeds
}

func compact(t *testing.T, raw abi.JSON) string {
	t.Helper()
	if raw == nil {
		return ""
	}
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, raw))
	return b.String()
}

// TestVectors checks that each vector is spelled as its types encode it, and that a
// middleware returns exactly its answer.
func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../testdata/abi/*.json")
	require.NoError(t, err)
	met := map[abi.Hook]bool{}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		names = append(names, name)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var v vector
		unknown, err := abijson.Decode(b, &v)
		require.NoError(t, err, name)
		require.Empty(t, unknown, name)
		require.True(t, strings.HasPrefix(name, string(v.Hook)), "%s is a vector of %s", name, v.Hook)
		require.NotEmpty(t, v.About, name)
		met[v.Hook] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkSpelling(t, &v)
			checkAnswer(t, name, &v)
		})
	}
	for _, hook := range contract.Hooks() {
		require.True(t, met[hook], "no vector of %s", hook)
	}
	for name := range scripts {
		require.Contains(t, names, name, "a script without a vector")
	}
}

func checkSpelling(t *testing.T, v *vector) {
	t.Helper()
	input, answer := contract.Exchange(v.Hook)
	sameSpelling(t, v.Input, reflect.ValueOf(input).Elem().Interface())
	sameSpelling(t, v.Answer, reflect.ValueOf(answer).Elem().Interface())
	sameSpelling(t, v.Error, abi.Error{})
	for _, next := range v.Next {
		if v.Hook == contract.HookWrapModel {
			sameSpelling(t, next.Patch, abi.RequestPatch{})
			sameSpelling(t, next.Reply, contract.ModelReply{})
		} else {
			sameSpelling(t, next.Patch, abi.CallPatch{})
			sameSpelling(t, next.Reply, contract.ToolReply{})
		}
		sameSpelling(t, next.Error, abi.Error{})
	}
	for _, c := range v.Stream {
		switch {
		case c.Call == "send":
			sameSpelling(t, c.Given, contract.Sent{})
		case c.Call == "recv":
			sameSpelling(t, c.Reply, contract.Received{})
		case v.Hook == contract.HookWrapModel:
			sameSpelling(t, c.Given, abi.RequestPatch{})
		default:
			sameSpelling(t, c.Given, abi.CallPatch{})
		}
		sameSpelling(t, c.Error, abi.Error{})
	}
}

// recorded is a host that replies to next as a vector specifies, and requires the vector's patches.
type recorded struct {
	middleware.Host
	t *testing.T
	v *vector

	n, streamed int
}

func (r *recorded) Next(patch []byte) ([]byte, error) {
	require.Less(r.t, r.n, len(r.v.Next), "next is called too often")
	next := r.v.Next[r.n]
	r.n++
	require.Equal(r.t, compact(r.t, next.Patch), string(patch))
	if next.Error != nil {
		failed := &abi.Error{}
		require.NoError(r.t, json.Unmarshal(next.Error, failed))
		return nil, failed
	}
	return next.Reply, nil
}

// streams requires that the next stream call of the vector is call, which is "next_stream", "recv"
// or "send", and has the argument given. It returns the vector's reply to that call, or its error.
func (r *recorded) streams(call string, given []byte) ([]byte, error) {
	require.Less(r.t, r.streamed, len(r.v.Stream), "%s is called too often", call)
	c := r.v.Stream[r.streamed]
	r.streamed++
	require.Equal(r.t, c.Call, call)
	require.Equal(r.t, compact(r.t, c.Given), string(given))
	if c.Error != nil {
		failed := &abi.Error{}
		require.NoError(r.t, json.Unmarshal(c.Error, failed))
		return nil, failed
	}
	return c.Reply, nil
}

func (r *recorded) NextStream(patch []byte) error {
	_, err := r.streams("next_stream", patch)
	return err
}

func (r *recorded) Recv() ([]byte, error) { return r.streams("recv", nil) }

func (r *recorded) Send(chunks []byte) error {
	_, err := r.streams("send", chunks)
	return err
}

func (r *recorded) Messages(_, from, to int) ([]byte, error) {
	return abijson.Marshal(r.v.Messages[from:to])
}

func checkAnswer(t *testing.T, name string, v *vector) {
	t.Helper()
	script := scripts[name]
	options := middleware.Options{}
	if v.Hook == contract.HookDescribe || v.Hook == contract.HookConfigure {
		options, script = guardOptions, &guard{}
	}
	require.NotNil(t, script, "a vector without a script")
	module := middleware.NewModule(options, script)
	host := &recorded{t: t, v: v}
	output, ok := module.Call(host, v.Hook, []byte(compact(t, v.Input)))
	require.Equal(t, v.Error == nil, ok, "%s", output)
	if v.Error != nil {
		require.Equal(t, compact(t, v.Error), string(output))
	} else {
		require.Equal(t, compact(t, v.Answer), string(output))
	}
	require.Len(t, v.Next, host.n, "calls of next")
	require.Len(t, v.Stream, host.streamed, "calls of next_stream, recv and send")
}

var guardOptions = middleware.Options{
	Name: "guard", Version: "1.2.0", Description: "Keeps an agent within its rules.", Requires: []string{"gate_tool"},
	Events: []abi.EventType{abi.EventToolCall, abi.EventRunFinished}, HoldStream: true, Labels: true,
}

type guard struct {
	Deny  []string `json:"deny" doc:"tools that are never called"`
	Limit int      `json:"limit" doc:"calls a run"`
}

func (g *guard) BeforeAgent(*middleware.Context, *middleware.AgentStart) error { return nil }
func (g *guard) GateTool(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
	return middleware.Allow(), nil
}
func (g *guard) Observe(*middleware.Context, []abi.Event) error { return nil }

// scripts holds the middlewares that return the vectors' answers, by the name of the vector.
var scripts = map[string]middleware.Middleware{
	"describe":          nil,
	"configure":         nil,
	"configure_invalid": nil,

	"before_agent": beforeAgent(func(_ *middleware.Context, run *middleware.AgentStart) error {
		run.AddInstruction("Be brief.")
		run.RemoveTool("time")
		run.ReturnDirectly = []string{"note"}
		run.Messages.Insert(0, abi.User("Today is Thursday."))
		return run.AddTool(abi.Tool{
			Name: "note", Description: "Keeps a note.",
			Parameters: []byte(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		})
	}),
	"before_agent_unchanged": beforeAgent(func(*middleware.Context, *middleware.AgentStart) error { return nil }),
	"before_agent_settings": beforeAgent(func(_ *middleware.Context, run *middleware.AgentStart) error {
		run.Model = "large"
		run.Limits.MaxSteps, run.Limits.Tools = 10, map[string]int{"time": 1}
		delete(run.Params, "max_tokens")
		return run.SetParam("temperature", 1)
	}),
	"before_agent_whole_tools": beforeAgent(func(_ *middleware.Context, run *middleware.AgentStart) error {
		run.Tools[0].Description = "Adds and multiplies."
		run.ReturnDirectly = nil
		return nil
	}),
	"before_agent_respond": beforeAgent(func(_ *middleware.Context, run *middleware.AgentStart) error {
		run.Respond(abi.Assistant("Come back tomorrow."))
		return nil
	}),
	"before_agent_stop": beforeAgent(func(ctx *middleware.Context, run *middleware.AgentStart) error {
		run.Instruction = "not applied"
		return ctx.Stop("no credit left", "credit")
	}),
	"before_agent_interrupt": beforeAgent(func(ctx *middleware.Context, _ *middleware.AgentStart) error {
		return ctx.Interrupt("may this user run it?", map[string]string{"user": "u-1"})
	}),
	"before_agent_failed": beforeAgent(func(*middleware.Context, *middleware.AgentStart) error {
		return &abi.Error{
			Code:         abi.CodeUnavailable,
			Message:      "read the policy: no answer",
			Retryable:    true,
			Status:       503,
			RetryAfterMS: 2000,
		}
	}),

	"before_model_rewrite_state": middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, s *middleware.State) error {
			last, _ := s.Messages.Last()
			s.Messages.Insert(1, abi.User("before m2"))
			s.Messages.Delete(3, 5)
			last.Content = abi.Text("And 3 + 3, please?")
			s.Messages.Set(4, last)
			s.Messages.Append(abi.User("at the end"))
			return s.SetActive("calculator")
		},
	),
	"before_model_rewrite_state_whole": middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, s *middleware.State) error {
			s.Messages.SetAll([]abi.Message{{
				Role: abi.RoleUser, Extra: []byte(`{"summary":true}`),
				Content: abi.Parts(abi.Part{Type: abi.PartText, Text: "Summary: 2 + 2 is 4."},
					abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:image/png;base64,AAAA","detail":"low"}`)}),
			}})
			return s.SetActive()
		},
	),
	"before_model_rewrite_state_emptied": middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, s *middleware.State) error {
			s.Messages.SetAll(nil)
			return nil
		},
	),

	"before_model": middleware.WithBeforeModel(func(_ *middleware.Context, call *middleware.ModelStart) error {
		call.Messages.Append(abi.User("Answer in one word."))
		call.Tools = call.Tools[:1]
		call.Model = "large"
		delete(call.Params, "stop")
		return call.SetParam("temperature", 0)
	}),
	"before_model_response": middleware.WithBeforeModel(func(_ *middleware.Context, call *middleware.ModelStart) error {
		call.Respond(&abi.Response{Message: abi.Assistant("Four."), FinishReason: abi.FinishStop})
		return nil
	}),
	"wrap_model": middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			req.Messages.Delete(1, 2)
			req.Model = "large"
			response, err := next(req)
			if err != nil {
				return nil, err
			}
			response.Message.Content = abi.Text("Four.")
			return response, nil
		},
	),
	"wrap_model_unchanged": middleware.WithModelWrapper(
		func(_ *middleware.Context, _ *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			return next(nil)
		},
	),
	"wrap_model_again": middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			if response, err := next(req); err == nil {
				return response, nil
			}
			req.Model = "large"
			return next(req)
		},
	),
	"wrap_model_error": middleware.WithModelWrapper(
		func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			return next(req)
		},
	),

	"wrap_model_stream": middleware.WithModelWrapper(
		func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			req.Model = "large"
			stream := next.Stream(req)
			for batch := range stream.Batches() {
				for i := range batch {
					batch[i].Text = strings.ToUpper(batch[i].Text)
				}
				if err := ctx.Send(batch...); err != nil {
					return nil, err
				}
			}
			return nil, stream.End()
		},
	),

	"on_chunk": middleware.WithOnChunk(func(_ *middleware.Context, chunks *middleware.Chunks) error {
		for i := range chunks.Items {
			chunks.Items[i].Text = strings.ReplaceAll(chunks.Items[i].Text, "a@b.example", "[mail]")
		}
		return nil
	}),
	"on_chunk_drop": middleware.WithOnChunk(func(_ *middleware.Context, chunks *middleware.Chunks) error {
		chunks.Items = nil
		return nil
	}),
	"on_chunk_final": middleware.WithOnChunk(func(_ *middleware.Context, chunks *middleware.Chunks) error {
		if chunks.Final {
			chunks.Items = append(chunks.Items, abi.Chunk{Kind: abi.ChunkText, Text: "held back"})
		}
		return nil
	}),

	"after_model": middleware.WithAfterModel(func(_ *middleware.Context, call *middleware.ModelEnd) error {
		call.Response.Message.Content = abi.Text("4")
		return nil
	}),
	"after_model_again": middleware.WithAfterModel(func(_ *middleware.Context, call *middleware.ModelEnd) error {
		call.Request.Messages.Append(call.Response.Message, abi.User("As a digit, please."))
		call.Again("no digit")
		return nil
	}),
	"after_model_error": middleware.WithAfterModel(func(_ *middleware.Context, call *middleware.ModelEnd) error {
		call.Err = &abi.Error{Code: abi.CodeUnavailable, Message: "the model is busy; try again in a minute"}
		return nil
	}),
	"after_model_recover": middleware.WithAfterModel(func(_ *middleware.Context, call *middleware.ModelEnd) error {
		call.Response = &abi.Response{Message: abi.Assistant("I cannot answer now."), FinishReason: abi.FinishStop}
		return nil
	}),
	"after_model_rewrite_state": middleware.WithAfterModelRewriteState(
		func(_ *middleware.Context, s *middleware.State) error {
			last, _ := s.Messages.Last()
			last.ToolCalls = append(last.ToolCalls, abi.NewToolCall("call_9", "calculator", "{}"))
			s.Messages.Set(s.Messages.Len()-1, last)
			return nil
		},
	),

	"before_tool": middleware.WithBeforeTool(func(_ *middleware.Context, call *middleware.ToolStart) error {
		var args expression
		if err := call.Args(&args); err != nil {
			return err
		}
		args.Expression = strings.ReplaceAll(args.Expression, " ", "")
		return call.SetArgs(args)
	}),
	"before_tool_result": middleware.WithBeforeTool(func(_ *middleware.Context, call *middleware.ToolStart) error {
		call.Respond(&abi.Result{Content: abi.Text("4"), Extra: []byte(`{"cached":true}`)})
		return nil
	}),
	"wrap_tool_call": middleware.WithToolCallWrapper(
		func(_ *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
			call.Arguments = `{"expression":"2+2"}`
			result, err := next(call)
			if err != nil {
				return nil, err
			}
			return abi.TextResult("it is " + result.Content.String()), nil
		},
	),
	"wrap_tool_call_stream": middleware.WithToolCallWrapper(
		func(ctx *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
			stream := next.Stream(call)
			for chunk := range stream.Chunks() {
				if err := ctx.Send(chunk); err != nil {
					return nil, err
				}
			}
			return nil, stream.End()
		},
	),
	"wrap_tool_call_unchanged": middleware.WithToolCallWrapper(
		func(_ *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
			return next(call)
		},
	),
	"wrap_tool_call_error": middleware.WithToolCallWrapper(
		func(_ *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
			result, err := next(call)
			if err != nil {
				return abi.ErrorResult("the calculator is out of order"), nil
			}
			return result, nil
		},
	),

	"gate_tool": gate(func(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
		return middleware.Allow(), nil
	}),
	"gate_tool_deny": gate(func(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
		return middleware.Deny(call.Name + " is not allowed here"), nil
	}),
	"gate_tool_ask": gate(func(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
		return middleware.Ask("may it calculate?").With(map[string]float64{"cost": 0.02}), nil
	}),
	"gate_tool_stop": gate(func(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
		return middleware.StopRun("no calculations in this run"), nil
	}),
	"call_tool_stream": middleware.WithTools(middleware.Tool{
		Tool: abi.Tool{Name: "note"},
		Run: func(ctx *middleware.Context, _ *middleware.Call) (*abi.Result, error) {
			if err := ctx.SendText("one"); err != nil {
				return nil, err
			}
			return nil, ctx.Send(abi.Chunk{
				Kind: abi.ChunkPart,
				Part: &abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:image/png;base64,AAAA"}`)},
			})
		},
	}),
	"call_tool": middleware.WithTools(middleware.NewTool("note", "Keeps a note.", func(_ *middleware.Context, args struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return "noted: " + args.Text, nil
	})),

	"after_tool": middleware.WithAfterTool(func(_ *middleware.Context, call *middleware.ToolEnd) error {
		call.Result.Content = abi.Text(call.Result.Content.String() + " (checked)")
		call.Result.Extra = []byte(`{"checked":true}`)
		return nil
	}),
	"after_tool_again": middleware.WithAfterTool(func(_ *middleware.Context, call *middleware.ToolEnd) error {
		call.Arguments = `{"expression":"2.0+2"}`
		call.Again("want a fraction")
		return nil
	}),
	"after_tool_error": middleware.WithAfterTool(func(_ *middleware.Context, call *middleware.ToolEnd) error {
		call.Result = abi.ErrorResult("the calculator is out of order")
		return nil
	}),
	"tool_messages": toolMessages{},
	"after_tools": middleware.WithAfterTools(func(_ *middleware.Context, round *middleware.ToolsEnd) error {
		if slices.ContainsFunc(round.Calls, func(c abi.Call) bool { return c.Name == "calculator" }) {
			round.Messages.Append(abi.User("Now answer."))
		}
		return nil
	}),

	"after_agent": middleware.WithAfterAgent(func(_ *middleware.Context, run *middleware.AgentEnd) error {
		run.Final.Content = abi.Text(run.Final.Content.String() + " (Checked.)")
		return nil
	}),
	"after_agent_failed": middleware.WithAfterAgent(func(_ *middleware.Context, run *middleware.AgentEnd) error {
		if run.Final != nil || run.Err.Code != abi.CodeModel {
			return run.Err
		}
		return nil
	}),
	"observe": middleware.WithObserver(func(_ *middleware.Context, events []abi.Event) error {
		if events[len(events)-1].Type != abi.EventRunFinished || len(events) != len(contract.EventTypes()) {
			return &abi.Error{Code: abi.CodeInvalid, Message: "these are not all events"}
		}
		return nil
	}),
	"translate_before": translator{},
	"translate_after":  translator{},
}

type expression struct {
	Expression string `json:"expression"`
}

type toolMessages struct{}

func (toolMessages) ToolMessages(_ *middleware.Context, record *middleware.ToolRecord) error {
	short := record.Default
	short.Content = abi.Text("see below")
	record.Messages = []abi.Message{short, abi.User("The calculator said " + record.Result.Content.String() + ".")}
	return nil
}

type translator struct{}

func (translator) TranslateBefore(_ *middleware.Context, t *middleware.Translation) error {
	var event abi.Event
	if _, err := abijson.Decode(t.Event, &event); err != nil {
		return err
	}
	event.Data = nil
	var err error
	t.Event, err = abijson.Marshal(event)
	return err
}

func (translator) TranslateAfter(_ *middleware.Context, t *middleware.Translation) error {
	t.Drop = t.Protocol == "openai"
	return nil
}

func beforeAgent(fn func(*middleware.Context, *middleware.AgentStart) error) middleware.Middleware {
	return middleware.WithBeforeAgent(fn)
}

func gate(fn func(*middleware.Context, *middleware.Call) (middleware.Decision, error)) middleware.Middleware {
	return middleware.WithGate(fn)
}

// sameSpelling requires that raw is unchanged after decoding and encoding it.
func sameSpelling(t *testing.T, raw abi.JSON, shape any) {
	t.Helper()
	if raw == nil {
		return
	}
	v := reflect.New(reflect.TypeOf(shape))
	unknown, err := abijson.Decode(raw, v.Interface())
	require.NoError(t, err)
	require.Empty(t, unknown)
	b, err := abijson.Marshal(v.Interface())
	require.NoError(t, err)
	require.Equal(t, compact(t, raw), compact(t, b))
}
