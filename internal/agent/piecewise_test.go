package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// upper returns a middleware that streams the model's chunks in upper case. It then calls the
// functions in send, and returns the end of the stream.
func upper(send ...func(context.Context, *hook.Call) error) *inproc.Middleware {
	return &inproc.Middleware{
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			stream := c.StreamModel(ctx, abi.RequestPatch{})
			for chunk := range stream.Chunks() {
				chunk.Text = strings.ToUpper(chunk.Text)
				if err := c.Send(ctx, chunk); err != nil {
					return nil, err
				}
			}
			for _, fn := range send {
				if err := fn(ctx, c); err != nil {
					return nil, err
				}
			}
			return nil, stream.End()
		},
	}
}

func TestWrapperStreams(t *testing.T) {
	t.Parallel()
	m := abi.Message{
		Role:             "assistant",
		Content:          abi.Text("text"),
		ReasoningContent: "why",
		ToolCalls:        []abi.ToolCall{abi.NewToolCall("a", "t", `{"x":1}`)},
	}
	r := scripted.Message(m)
	r.Size = 2
	for name, noStream := range map[string]bool{"streamed": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := try(
				t,
				agent.Options{
					Tools:    []tool.Tool{toolNamed("t", "ok")},
					NoStream: noStream,
					Chain:    with(t, nativeEntry("upper", upper())),
				},
				[]scripted.Reply{r, pieces("done at last")},
			)
			require.NoError(t, tr.err)
			got := tr.message(t)
			require.Equal(t, "TEXT", got.Message.Content.String())
			require.Equal(t, "WHY", got.Message.ReasoningContent)
			require.Equal(t, m.ToolCalls, got.Message.ToolCalls, "calls are put together from their pieces")
			require.False(t, got.Replaced)
			require.Equal(t, abi.OriginModule+"upper", got.Message.Origin)
			require.Equal(t, "DONE AT LAST", tr.last().Message.Content.String())
			require.Contains(t, tr.results(), "a=ok")
			if !noStream {
				require.Equal(t, "WHYTEXTDONE AT LAST", tr.streamed())
			}
		})
	}
}

// TestOperatorSeesAllThatIsSent checks that the chunks that a tenant's module sends pass an
// operator's on_chunk before they reach the caller and the message.
func TestOperatorSeesAllThatIsSent(t *testing.T) {
	t.Parallel()
	const leak = "SECRET"
	clean := func(s string) string { return strings.ReplaceAll(s, leak, "*") }
	sends := upper(func(ctx context.Context, c *hook.Call) error {
		return c.Send(ctx, abi.Chunk{Kind: abi.ChunkText, Text: leak}, abi.Chunk{Kind: abi.ChunkReasoning, Text: leak})
	})
	tr := try(
		t,
		agent.Options{
			Chain: with(t, nativeEntry("tenant", sends), hook.Entry{Name: "op", Ring: hook.Outer, Middleware: onText(clean)}),
		},
		[]scripted.Reply{pieces("fine")},
	)
	require.NoError(t, tr.err)
	require.Equal(t, "FINE**", tr.streamed())
	m := tr.message(t)
	require.Equal(t, "FINE*", m.Message.Content.String())
	require.Equal(t, "*", m.Message.ReasoningContent)
	require.False(t, m.Replaced)
}

// chars is a model that streams its text byte by byte, both as text and as reasoning.
type chars string

func (c chars) Generate(_ context.Context, _ *model.Request, out func(abi.Chunk) error) (*abi.Response, error) {
	for i := range len(c) {
		if err := out(abi.Chunk{Kind: abi.ChunkText, Text: string(c[i : i+1])}); err != nil {
			return nil, err
		}
		if err := out(abi.Chunk{Kind: abi.ChunkReasoning, Text: string(c[i : i+1])}); err != nil {
			return nil, err
		}
	}
	return &abi.Response{
		Message:      abi.Message{Role: abi.RoleAssistant, Content: abi.Text(string(c)), ReasoningContent: string(c)},
		FinishReason: abi.FinishStop,
	}, nil
}

func TestCharactersAreNotSplit(t *testing.T) {
	t.Parallel()
	const text = "aä€😀ÿ"
	var got []string
	a, err := agent.New(
		&agent.Options{Model: chars(text), Chain: with(t, nativeEntry("same", onText(func(s string) string { return s })))},
	)
	require.NoError(t, err)
	for e, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
		if e.Type == abi.EventRunFinished {
			require.NoError(t, err)
		}
		if e.Type == abi.EventChunk && e.Chunk.Kind == abi.ChunkText {
			got = append(got, e.Chunk.Text)
		}
		if e.Type == abi.EventMessage {
			require.False(t, e.Replaced)
			require.Equal(t, text, e.Message.Content.String())
			require.Equal(t, text, e.Message.ReasoningContent)
		}
	}
	require.Equal(t, strings.Split(text, ""), got)
}

// TestCallerLeavesAStream checks that a model inside two streaming wrappers gets an error when the
// caller stops taking events.
func TestCallerLeavesAStream(t *testing.T) {
	t.Parallel()
	endless := &endless{}
	a, err := agent.New(
		&agent.Options{Model: endless, Chain: with(t, nativeEntry("one", upper()), nativeEntry("two", upper()))},
	)
	require.NoError(t, err)
	n := 0
	for e := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
		if e.Type == abi.EventChunk {
			if n++; n == 3 {
				break
			}
		}
	}
	require.Error(t, endless.ended.Load().(error))
}

// An endless model streams until its caller stops.
type endless struct{ ended atomic.Value }

func (e *endless) Generate(_ context.Context, _ *model.Request, out func(abi.Chunk) error) (*abi.Response, error) {
	for {
		if err := out(abi.Chunk{Kind: abi.ChunkText, Text: "x"}); err != nil {
			e.ended.Store(err)
			return nil, err
		}
	}
}

// slowly returns a tool that streams its result in pieces.
func slowly(pieces ...string) tool.Tool {
	return tool.StreamFunc(abi.Tool{Name: "t"}, func(_ context.Context, _ abi.Call, out *tool.Out) (*abi.Result, error) {
		for _, p := range pieces {
			if err := out.Text(p); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

func TestStreamingTools(t *testing.T) {
	t.Parallel()
	var flag atomic.Bool
	sees := &inproc.Middleware{
		BeforeTool: func(_ context.Context, _ *hook.Call, in *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			flag.Store(in.Stream)
			return nil, nil
		},
	}
	for name, noStream := range map[string]bool{"streamed": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			tr := try(
				t,
				agent.Options{Tools: []tool.Tool{slowly("a", "\xc3", "\xa4", "b"), toolNamed("u", "whole")}, NoStream: noStream,
					Chain: with(t, nativeEntry("upper", onText(strings.ToUpper)), nativeEntry("sees", sees))},
				[]scripted.Reply{calls("t#1", "u#2"), scripted.Text("done")},
			)
			require.NoError(t, tr.err)
			require.ElementsMatch(t, []string{"1=AÄB", "2=WHOLE"}, tr.results())
			require.Equal(t, !noStream, flag.Load())
			received := ""
			for _, e := range tr.events {
				if e.Type == abi.EventChunk && e.Chunk.Kind == abi.ChunkToolResult {
					require.Equal(t, "1", e.Chunk.CallID, "a result that came as a whole is no chunk")
					received += e.Chunk.Text
				}
			}
			if noStream {
				require.Empty(t, received)
			} else {
				require.Equal(t, "AÄB", received)
			}
		})
	}
}

// TestStreamingToolFails checks that the result of a failing tool is the error, even if the tool
// has sent chunks.
func TestStreamingToolFails(t *testing.T) {
	t.Parallel()
	broken := tool.StreamFunc(
		abi.Tool{Name: "t"},
		func(_ context.Context, _ abi.Call, out *tool.Out) (*abi.Result, error) {
			return nil, errors.Join(out.Text("half "), errors.New("broken"))
		},
	)
	tr := try(t, agent.Options{Tools: []tool.Tool{broken}}, []scripted.Reply{calls("t#1"), scripted.Text("done")})
	require.NoError(t, tr.err)
	require.Equal(t, []string{"1=broken"}, tr.results())
	require.Contains(t, tr.streamed(), "half ")
}

// TestStreamsOverAPause checks that chunks that were streamed before a pause are not streamed again
// afterwards, and that no tool runs twice.
func TestStreamsOverAPause(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	once := tool.StreamFunc(abi.Tool{Name: "t"}, func(_ context.Context, _ abi.Call, out *tool.Out) (*abi.Result, error) {
		ran.Add(1)
		return nil, errors.Join(out.Text("one "), out.Text("two"))
	})
	read := 0
	asks := &inproc.Middleware{
		WrapToolCall: func(ctx context.Context, c *hook.Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			s := c.StreamTool(ctx, abi.CallPatch{})
			for chunk := range s.Chunks() {
				read++
				if err := c.Send(ctx, chunk); err != nil {
					return nil, err
				}
			}
			if in.Resume == nil {
				return &abi.WrapToolCallAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "keep it?"}}}, nil
			}
			return nil, s.End()
		},
	}
	p := pause(
		t,
		agent.Options{Tools: []tool.Tool{once}, Chain: with(t, nativeEntry("asks", asks))},
		calls("t#1"),
		scripted.Text("done"),
	)
	p.one("true")
	require.NoError(t, p.err)
	require.EqualValues(t, 1, ran.Load())
	require.GreaterOrEqual(t, read, 2, "the record answers in one piece")
	received := ""
	for _, e := range p.events {
		if e.Type == abi.EventChunk && e.Chunk.Kind == abi.ChunkToolResult {
			received += e.Chunk.Text
		}
		if e.Type == abi.EventToolResult {
			require.Equal(t, "one two", e.Result.Content.String())
		}
	}
	require.Equal(t, "one two", received)
}
