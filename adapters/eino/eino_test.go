package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	adapter "github.com/agent-runner/agent-runner/adapters/eino"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// scripted is an Eino model that answers from a list and records its inputs.
type scripted struct {
	mu      sync.Mutex
	replies []*schema.Message
	asked   [][]*schema.Message
	tools   [][]string
	options []*model.Options
}

func (m *scripted) next(input []*schema.Message, opts []model.Option) (*schema.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := model.GetCommonOptions(&model.Options{}, opts...)
	var names []string
	for _, t := range o.Tools {
		names = append(names, t.Name)
	}
	m.asked, m.tools, m.options = append(m.asked, input), append(m.tools, names), append(m.options, o)
	if len(m.replies) == 0 {
		return nil, errors.New("the script has no more replies")
	}
	reply := m.replies[0]
	m.replies = m.replies[1:]
	return reply, nil
}

func (m *scripted) Generate(_ context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	return m.next(input, opts)
}

// Stream returns a reply's text word by word.
func (m *scripted) Stream(
	_ context.Context,
	input []*schema.Message,
	opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	reply, err := m.next(input, opts)
	if err != nil {
		return nil, err
	}
	var pieces []*schema.Message
	for _, word := range strings.SplitAfter(reply.Content, " ") {
		pieces = append(pieces, schema.AssistantMessage(word, nil))
	}
	if len(reply.ToolCalls) > 0 {
		pieces = append(pieces, schema.AssistantMessage("", reply.ToolCalls))
	}
	return schema.StreamReaderFromArray(pieces), nil
}

func call(id, name, arguments string) schema.ToolCall {
	return schema.ToolCall{ID: id, Type: "function", Function: schema.FunctionCall{Name: name, Arguments: arguments}}
}

type echoInput struct {
	Text string `json:"text"`
}

// echo returns a tool named echo. The tool returns its text, or an error if the text is "fail". It
// appends each text to ran, unless ran is nil.
func echo(t *testing.T, ran *[]string) tool.BaseTool {
	t.Helper()
	var mu sync.Mutex
	out, err := utils.InferTool("echo", "returns a text", func(_ context.Context, in echoInput) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if ran != nil {
			*ran = append(*ran, in.Text)
		}
		if in.Text == "fail" {
			return "", errors.New("echo is broken")
		}
		return "echo: " + in.Text, nil
	})
	require.NoError(t, err)
	return out
}

type setup struct {
	model  *scripted
	tools  []tool.BaseTool
	mw     *adapter.Options
	direct map[string]bool
	stream bool
}

func (s *setup) runner(t *testing.T, store adk.CheckPointStore) *adk.Runner {
	t.Helper()
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	mw, release, err := adapter.New(t.Context(), h, s.mw)
	require.NoError(t, err)
	t.Cleanup(release)
	agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
		Name: "test", Description: "test", Instruction: "Be brief.", Model: s.model,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: s.tools}, ReturnDirectly: s.direct},
		Handlers:    []adk.ChatModelAgentMiddleware{mw},
	})
	require.NoError(t, err)
	return adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: agent, EnableStreaming: s.stream, CheckPointStore: store})
}

// A result holds the messages, chunks, error and interrupts that the caller of an Eino runner
// receives.
type result struct {
	lines      []string // role: content
	chunks     []string
	err        error
	interrupts []*adk.InterruptCtx
}

func (s *setup) run(t *testing.T, prompt string) result {
	t.Helper()
	return read(t, s.runner(t, nil).Query(t.Context(), prompt))
}

func read(t *testing.T, events *adk.AsyncIterator[*adk.AgentEvent]) (r result) {
	t.Helper()
	for {
		e, ok := events.Next()
		if !ok {
			return r
		}
		switch {
		case e.Err != nil:
			r.err = e.Err
		case e.Action != nil && e.Action.Interrupted != nil:
			r.interrupts = e.Action.Interrupted.InterruptContexts
		case e.Output != nil && e.Output.MessageOutput != nil:
			out := e.Output.MessageOutput
			if out.IsStreaming {
				for {
					m, err := out.MessageStream.Recv()
					if err != nil {
						break
					}
					r.chunks = append(r.chunks, m.Content)
				}
				continue
			}
			r.lines = append(r.lines, fmt.Sprintf("%s: %s", out.Message.Role, out.Message.Content))
		}
	}
}

func inProcess(name string, n *native.Middleware) host.Middleware {
	return host.Middleware{Name: name, Native: n}
}

func TestHooksInOrder(t *testing.T) {
	var order []string
	note := func(name string) { order = append(order, name) }
	mw := &native.Middleware{
		BeforeAgent: func(_ context.Context, _ *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			note("before_agent " + in.Instruction)
			text := in.Instruction + " In verse."
			return &abi.BeforeAgentAnswer{Instruction: &text}, nil
		},
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			note(fmt.Sprintf("before_model_rewrite_state %d, step %d", c.List(0).Len(), c.Where().Step))
			return nil, nil
		},
		BeforeModel: func(_ context.Context, _ *hook.Call, in *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			note("before_model")
			return nil, nil
		},
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			note("wrap_model")
			res, err := c.NextModel(ctx, abi.RequestPatch{Params: abi.Params{"temperature": json.RawMessage("0.5")}})
			return &abi.WrapModelAnswer{Response: res}, err
		},
		AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			note("after_model " + in.Source)
			return nil, nil
		},
		AfterModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			note(fmt.Sprintf("after_model_rewrite_state %d", c.List(0).Len()))
			return nil, nil
		},
		BeforeTool: func(_ context.Context, _ *hook.Call, in *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			note("before_tool " + in.Call.Arguments)
			args := `{"text":"changed"}`
			return &abi.BeforeToolAnswer{Arguments: &args}, nil
		},
		WrapToolCall: func(ctx context.Context, c *hook.Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			note("wrap_tool_call")
			res, err := c.NextTool(ctx, abi.CallPatch{})
			return &abi.WrapToolCallAnswer{Result: res}, err
		},
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			note("gate_tool " + in.Call.Arguments)
			return &abi.GateToolAnswer{Decision: "allow"}, nil
		},
		AfterTool: func(_ context.Context, _ *hook.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
			note("after_tool " + in.Result.Content.String())
			return nil, nil
		},
		AfterTools: func(_ context.Context, _ *hook.Call, in *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			note(fmt.Sprintf("after_tools %d", len(in.Calls)))
			return nil, nil
		},
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			note("after_agent " + in.Final.Content.String())
			return nil, nil
		},
	}
	s := &setup{
		model: &scripted{
			replies: []*schema.Message{
				schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"hi"}`)}),
				schema.AssistantMessage("done", nil),
			},
		},
		tools: []tool.BaseTool{echo(t, nil)},
		mw:    &adapter.Options{Middlewares: []host.Middleware{inProcess("n", mw)}},
	}
	r := s.run(t, "hello")
	require.NoError(t, r.err)
	require.Equal(t, []string{"assistant: ", "tool: echo: changed", "assistant: done"}, r.lines)
	require.Equal(t, []string{
		"before_agent Be brief.", "before_model_rewrite_state 2, step 1", "before_model", "wrap_model", "after_model model",
		"after_model_rewrite_state 3", `before_tool {"text":"hi"}`, "wrap_tool_call", `gate_tool {"text":"changed"}`,
		"after_tool echo: changed", "after_tools 1", "before_model_rewrite_state 4, step 2", "before_model", "wrap_model",
		"after_model model", "after_model_rewrite_state 5", "after_agent done",
	}, order)
	require.Equal(t, "Be brief. In verse.", s.model.asked[0][0].Content)
	require.InDelta(t, 0.5, *s.model.options[0].Temperature, 0)
	require.Equal(t, []string{"echo"}, s.model.tools[0])
}

func TestStateIsKept(t *testing.T) {
	mw := &native.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			n, err := c.LocalAdd("steps", 1)
			if err != nil || n > 1 {
				return nil, err
			}
			return &abi.BeforeModelRewriteStateAnswer{
				Messages: abi.ListPatch{
					Splice: []abi.Splice{{At: c.List(0).Len(), Insert: []abi.Message{abi.User("and politely")}}},
				},
			}, nil
		},
		AfterModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			last, _ := c.List(0).Last()
			if len(last.ToolCalls) > 0 {
				return nil, nil
			}
			last.Content = abi.Text(strings.ToUpper(last.Content.String()))
			return &abi.AfterModelRewriteStateAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: c.List(0).Len() - 1, Remove: 1, Insert: []abi.Message{last}}}},
			}, nil
		},
	}
	s := &setup{
		model: &scripted{
			replies: []*schema.Message{
				schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"hi"}`)}),
				schema.AssistantMessage("done", nil),
			},
		},
		tools: []tool.BaseTool{echo(t, nil)},
		mw:    &adapter.Options{Middlewares: []host.Middleware{inProcess("n", mw)}},
	}
	r := s.run(t, "hello")
	require.NoError(t, r.err)
	var seen []string
	for _, m := range s.model.asked[1] {
		seen = append(seen, string(m.Role)+": "+m.Content)
	}
	require.Equal(t, []string{"system: Be brief.", "user: hello", "user: and politely", "assistant: ", "tool: echo: hi"},
		seen)
}

func TestToolsOfModulesAndDenials(t *testing.T) {
	var ran []string
	mw := &native.Middleware{
		BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return &abi.BeforeAgentAnswer{
				Tools: abi.ToolsPatch{
					Add: []abi.Tool{
						{
							Name:        "clock",
							Description: "the time",
							Parameters:  json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string"}}}`),
						},
					},
				},
			}, nil
		},
		CallTool: func(_ context.Context, _ *hook.Call, in *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			return &abi.CallToolAnswer{Result: abi.TextResult("noon " + in.Call.Arguments)}, nil
		},
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if strings.Contains(in.Call.Arguments, "secret") {
				return &abi.GateToolAnswer{Decision: "deny", Message: "no secrets"}, nil
			}
			return &abi.GateToolAnswer{Decision: "allow"}, nil
		},
	}
	s := &setup{
		model: &scripted{replies: []*schema.Message{
			schema.AssistantMessage("", []schema.ToolCall{
				call("c1", "clock", `{"zone":"UTC"}`),
				call("c2", "echo", `{"text":"secret"}`),
				call("c3", "echo", `{"text":`),
			}),
			schema.AssistantMessage("done", nil)}},
		tools: []tool.BaseTool{echo(t, &ran)},
		mw:    &adapter.Options{Middlewares: []host.Middleware{inProcess("n", mw)}},
	}
	r := s.run(t, "hello")
	require.NoError(t, r.err)
	require.Contains(t, r.lines, `tool: noon {"zone":"UTC"}`)
	require.Contains(t, strings.Join(r.lines, "\n"), "no secrets")
	require.Contains(t, strings.Join(r.lines, "\n"), "The arguments of echo are not valid")
	require.Empty(t, ran)
	require.Equal(t, []string{"echo", "clock"}, s.model.tools[0])
}

func TestToolsThatAreNotActive(t *testing.T) {
	var ran []string
	mw := &native.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			active := []string{}
			if c.Where().Step > 1 {
				active = []string{"echo"}
			}
			return &abi.BeforeModelRewriteStateAnswer{Active: active}, nil
		},
	}
	s := &setup{
		model: &scripted{replies: []*schema.Message{
			schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"early"}`)}),
			schema.AssistantMessage("", []schema.ToolCall{call("c2", "echo", `{"text":"late"}`)}),
			schema.AssistantMessage("done", nil)}},
		tools: []tool.BaseTool{echo(t, &ran)},
		mw:    &adapter.Options{Middlewares: []host.Middleware{inProcess("n", mw)}},
	}
	r := s.run(t, "hello")
	require.NoError(t, r.err)
	require.Equal(t, []string{"late"}, ran)
	require.Equal(t, [][]string{nil, {"echo"}, {"echo"}}, s.model.tools)
}

func TestErrors(t *testing.T) {
	t.Run("a tool's own error stays Eino's", func(t *testing.T) {
		s := &setup{
			model: &scripted{
				replies: []*schema.Message{schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"fail"}`)})},
			},
			tools: []tool.BaseTool{echo(t, nil)}, mw: &adapter.Options{},
		}
		require.ErrorContains(t, s.run(t, "hello").err, "echo is broken")
	})
	t.Run("a module may make a result of it", func(t *testing.T) {
		s := &setup{
			model: &scripted{
				replies: []*schema.Message{
					schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"fail"}`)}),
					schema.AssistantMessage("done", nil),
				},
			},
			tools: []tool.BaseTool{echo(t, nil)},
			mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("n", &native.Middleware{
				AfterTool: func(_ context.Context, _ *hook.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
					return &abi.AfterToolAnswer{Result: abi.TextResult("recovered from " + in.Error.Message)}, nil
				}})}},
		}
		r := s.run(t, "hello")
		require.NoError(t, r.err)
		require.Contains(t, strings.Join(r.lines, "\n"), "tool: recovered from")
	})
	t.Run("a stop ends the run with its type", func(t *testing.T) {
		s := &setup{
			model: &scripted{replies: []*schema.Message{schema.AssistantMessage("hi", nil)}},
			mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("guard", &native.Middleware{
				BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough", Code: "quota"}}}, nil
				}})}},
		}
		var stop *ending.StoppedError
		require.ErrorAs(t, s.run(t, "hello").err, &stop)
		require.Equal(t, "guard", stop.Entry)
		require.Equal(t, "quota", stop.Code)
	})
	t.Run("respond answers without the model", func(t *testing.T) {
		s := &setup{
			model: &scripted{},
			mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("faq", &native.Middleware{
				BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
					m := abi.Assistant("we open at nine")
					return &abi.BeforeAgentAnswer{Respond: &m}, nil
				}})}},
		}
		r := s.run(t, "when?")
		require.NoError(t, r.err)
		require.Equal(t, []string{"assistant: we open at nine"}, r.lines)
	})
}

func TestStream(t *testing.T) {
	upper := &native.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			for i := range in.Chunks {
				in.Chunks[i].Text = strings.ToUpper(in.Chunks[i].Text)
			}
			return &abi.OnChunkAnswer{Chunks: in.Chunks}, nil
		},
	}
	s := &setup{stream: true, model: &scripted{replies: []*schema.Message{schema.AssistantMessage("one two three", nil)}},
		mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("upper", upper)}}}
	r := s.run(t, "count")
	require.NoError(t, r.err)
	require.Equal(t, "ONE TWO THREE", strings.Join(r.chunks, ""))
	require.Greater(t, len(r.chunks), 2, "the stream is handed on as it comes")

	t.Run("what is changed after its chunks went out is right in the state", func(t *testing.T) {
		var last string
		late := &native.Middleware{
			AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
				return &abi.AfterModelAnswer{Response: &abi.Response{Message: abi.Assistant("corrected")}}, nil
			},
			AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
				last = in.Final.Content.String()
				return nil, nil
			},
		}
		s := &setup{stream: true, model: &scripted{replies: []*schema.Message{schema.AssistantMessage("one two", nil)}},
			mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("late", late)}}}
		r := s.run(t, "count")
		require.NoError(t, r.err)
		require.Equal(t, "corrected", last)
	})
}

// memory is a checkpoint store that holds all checkpoints in a map.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (s *memory) Get(_ context.Context, id string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.m[id]
	return b, ok, nil
}

func (s *memory) Set(_ context.Context, id string, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[id] = b
	return nil
}

func TestInterrupts(t *testing.T) {
	var ran []string
	gate := &native.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			_, err := c.LocalAdd("steps", 1)
			return nil, err
		},
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: "ask", Message: "may it say " + in.Call.Arguments}, nil
		},
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			v, _, err := c.LocalGet("steps")
			ran = append(ran, "steps "+string(v.Value))
			return nil, err
		},
	}
	for name, c := range map[string]struct {
		answer any
		want   []string
		result string
	}{
		"yes":    {true, []string{"hi", "steps 2"}, "tool: echo: hi"},
		"no":     {abi.Approval{Decision: abi.Reject, Message: "not today"}, []string{"steps 2"}, "not today"},
		"edited": {json.RawMessage(`{"decision":"allow"}`), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran = nil
			s := &setup{
				model: &scripted{
					replies: []*schema.Message{
						schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"hi"}`)}),
						schema.AssistantMessage("done", nil),
					},
				},
				tools: []tool.BaseTool{echo(t, &ran)},
				mw:    &adapter.Options{Middlewares: []host.Middleware{inProcess("gate", gate)}},
			}
			store := &memory{m: map[string][]byte{}}
			r := read(t, s.runner(t, store).Query(t.Context(), "hello", adk.WithCheckPointID("1")))
			require.NoError(t, r.err)
			require.Len(t, r.interrupts, 1)
			require.Contains(t, fmt.Sprint(r.interrupts[0].Info), "may it say")

			events, err := s.runner(t, store).
				ResumeWithParams(t.Context(), "1", &adk.ResumeParams{Targets: map[string]any{r.interrupts[0].ID: c.answer}})
			require.NoError(t, err)
			r = read(t, events)
			if c.want == nil {
				require.ErrorContains(t, r.err, "approve, deny or edit")
				return
			}
			require.NoError(t, r.err)
			require.Contains(t, strings.Join(r.lines, "\n"), c.result)
			require.Equal(t, c.want, ran)
		})
	}
}

func TestInterruptedModelCall(t *testing.T) {
	mw := &native.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			return &abi.BeforeModelRewriteStateAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: c.List(0).Len(), Insert: []abi.Message{abi.User("once")}}}},
			}, nil
		},
		AfterModel: func(_ context.Context, c *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			if in.Resume == nil {
				return &abi.AfterModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "look at it"}}}, nil
			}
			return nil, nil
		},
	}
	s := &setup{model: &scripted{replies: []*schema.Message{schema.AssistantMessage("done", nil)}},
		mw: &adapter.Options{Middlewares: []host.Middleware{inProcess("n", mw)}}}
	store := &memory{m: map[string][]byte{}}
	r := read(t, s.runner(t, store).Query(t.Context(), "hello", adk.WithCheckPointID("1")))
	require.NoError(t, r.err)
	require.Len(t, r.interrupts, 1)
	events, err := s.runner(t, store).
		ResumeWithParams(t.Context(), "1", &adk.ResumeParams{Targets: map[string]any{r.interrupts[0].ID: true}})
	require.NoError(t, err)
	r = read(t, events)
	require.NoError(t, r.err)
	require.Equal(t, []string{"assistant: done"}, r.lines)
	require.Len(t, s.model.asked, 1, "the model is not asked again")
	require.Len(t, s.model.asked[0], 3, "the state hook ran once")
}

func load(t *testing.T, h *host.Host, name string) *host.Module {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	path, err := guestbuild.Module(t.Context(), root, "examples/wasm-middlewares/"+name)
	require.NoError(t, err)
	m, err := h.Load(t.Context(), path, host.Limits{})
	require.NoError(t, err)
	return m
}

func TestModules(t *testing.T) {
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	redact, policy := load(t, h, "redact"), load(t, h, "tool-policy")
	var events []abi.Event
	var mu sync.Mutex
	mw, release, err := adapter.New(t.Context(), h, &adapter.Options{
		Middlewares: []host.Middleware{
			{Module: redact},
			{Module: policy, Config: json.RawMessage(`{"rules":[{"tools":["echo"],"action":"deny","message":"echo is off"}]}`)},
		},
		OnEvent: func(_ context.Context, e abi.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		},
	})
	require.NoError(t, err)
	t.Cleanup(release)
	m := &scripted{replies: []*schema.Message{
		schema.AssistantMessage("",
			[]schema.ToolCall{call("c1", "echo", `{"text":"hi"}`)}), schema.AssistantMessage("write to ann@example.com", nil)}}
	agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{Name: "test", Description: "test", Model: m,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{echo(t, nil)}}},
		Handlers:    []adk.ChatModelAgentMiddleware{mw}})
	require.NoError(t, err)
	runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: agent})
	for range 2 { // each run starts clean
		r := read(t, runner.Query(t.Context(), "hello"))
		require.NoError(t, r.err)
		text := strings.Join(r.lines, "\n")
		require.Contains(t, text, "echo is off")
		require.NotContains(t, text, "ann@example.com")
		m.replies = []*schema.Message{
			schema.AssistantMessage("", []schema.ToolCall{call("c1", "echo", `{"text":"hi"}`)}),
			schema.AssistantMessage("ann@example.com", nil),
		}
	}
	require.NotEmpty(t, events)
}
