package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func (tr *testRun) streamed() string {
	var b strings.Builder
	for _, e := range tr.events {
		if e.Type == abi.EventChunk {
			b.WriteString(e.Chunk.Text)
		}
	}
	return b.String()
}

func (tr *testRun) message(t *testing.T) abi.Event {
	t.Helper()
	for _, e := range tr.events {
		if e.Type == abi.EventMessage {
			return e
		}
	}
	t.Fatal("no message event")
	return abi.Event{}
}

// onText returns a middleware whose on_chunk applies change to the text of each chunk.
func onText(change func(string) string) *inproc.Middleware {
	return &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			out := make([]abi.Chunk, 0, len(in.Chunks))
			for _, c := range in.Chunks {
				c.Text = change(c.Text)
				out = append(out, c)
			}
			return &abi.OnChunkAnswer{Chunks: out}, nil
		},
	}
}

// pieces returns a reply that streams text in chunks of three characters.
func pieces(text string) scripted.Reply {
	r := scripted.Text(text)
	r.Size = 3
	return r
}

func TestChunksPassInOrder(t *testing.T) {
	t.Parallel()
	c := with(
		t,
		nativeEntry("upper", onText(strings.ToUpper)),
		nativeEntry("x", onText(func(s string) string { return strings.ReplaceAll(s, "L", "x") })),
	)
	for name, noStream := range map[string]bool{"streamed": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := try(t, agent.Options{Chain: c, NoStream: noStream}, []scripted.Reply{pieces("hello world")})
			require.NoError(t, tr.err)
			e := tr.message(t)
			require.Equal(t, "HExxO WORxD", e.Message.Content.String(), "the message has the chunks as on_chunk returned them")
			require.False(t, e.Replaced)
			if noStream {
				require.Zero(t, tr.count(abi.EventChunk))
			} else {
				require.Equal(t, "HExxO WORxD", tr.streamed())
				require.Greater(t, tr.count(abi.EventChunk), 2)
			}
		})
	}
}

func TestChunksOfAllKindsMakeTheMessage(t *testing.T) {
	t.Parallel()
	m := abi.Message{Role: "assistant", Content: abi.Text("text"), ReasoningContent: "why",
		ToolCalls: []abi.ToolCall{abi.NewToolCall("a", "t", `{"x":1}`), abi.NewToolCall("b", "t", `{"y":2}`)}}
	r := scripted.Message(m)
	r.Size = 2
	tr := try(
		t,
		agent.Options{
			Tools: []tool.Tool{toolNamed("t", "ok")},
			Chain: with(t, nativeEntry("upper", onText(strings.ToUpper))),
		},
		[]scripted.Reply{r, scripted.Text("done")},
	)
	got := tr.message(t).Message
	require.Equal(t, "TEXT", got.Content.String())
	require.Equal(t, "WHY", got.ReasoningContent)
	require.Equal(t, m.ToolCalls, got.ToolCalls)
	require.Contains(t, tr.results(), "a=OK", "tool results pass on_chunk too")
}

func TestFinalIsTrueOnce(t *testing.T) {
	t.Parallel()
	finals, last := 0, false
	hold := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			last = in.Final
			if !in.Final {
				return &abi.OnChunkAnswer{Chunks: []abi.Chunk{}}, nil
			}
			finals++
			return &abi.OnChunkAnswer{Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: "held"}}}, nil
		},
	}
	tr := try(t, agent.Options{Chain: with(t, nativeEntry("hold", hold))}, []scripted.Reply{pieces("withheld for now")})
	require.Equal(t, 1, finals)
	require.True(t, last)
	require.Equal(t, "held", tr.message(t).Message.Content.String())
	require.Equal(t, "held", tr.streamed())
}

func TestShortCircuitPassesTheHooks(t *testing.T) {
	t.Parallel()
	cut := &inproc.Middleware{
		BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Response: &abi.Response{Message: abi.Assistant("from cut")}}, nil
		},
	}
	var source string
	after := &inproc.Middleware{
		AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			source = in.Source
			return nil, nil
		},
	}
	tr := try(
		t,
		agent.Options{
			Chain: with(t, nativeEntry("cut", cut), nativeEntry("after", after), nativeEntry("upper", onText(strings.ToUpper))),
		},
		nil,
	)
	require.NoError(t, tr.err)
	require.Empty(t, tr.model.Requests())
	require.Equal(t, "FROM CUT", tr.message(t).Message.Content.String())
	require.Equal(t, "FROM CUT", tr.streamed())
	require.Equal(t, "cut", source)
	require.Equal(t, "module:cut", tr.message(t).Message.Origin)
}

// TestOperatorHasTheLastWord checks that text of a tenant's module passes an operator's on_chunk
// and after_model before the caller receives the text. This must be so in whichever hook the module
// answers.
func TestOperatorHasTheLastWord(t *testing.T) {
	t.Parallel()
	const leak = "SECRET"
	response := func() *abi.Response { return &abi.Response{Message: abi.Assistant(leak)} }
	clean := func(s string) string { return strings.ReplaceAll(s, leak, "*") }
	outer := onText(clean)
	outer.AfterModel = func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
		if in.Response == nil {
			return nil, nil
		}
		res := *in.Response
		res.Message.Content = abi.Text(clean(res.Message.Content.String()))
		return &abi.AfterModelAnswer{Response: &res}, nil
	}
	for name, tenant := range map[string]*inproc.Middleware{
		"before_model": {BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Response: response()}, nil
		}},
		"wrap_model without next": {WrapModel: func(context.Context, *hook.Call, *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			return &abi.WrapModelAnswer{Response: response()}, nil
		}},
		"wrap_model after next": {WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			_, _ = c.NextModel(ctx, abi.RequestPatch{})
			return &abi.WrapModelAnswer{Response: response()}, nil
		}},
		"on_chunk": onText(func(string) string { return leak }),
		"after_model": {AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{Response: response()}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := with(t, nativeEntry("tenant", tenant), hook.Entry{Name: "op", Ring: hook.Outer, Middleware: outer})
			tr := try(t, agent.Options{Chain: c}, []scripted.Reply{pieces("fine")})
			require.NoError(t, tr.err)
			require.NotContains(t, tr.streamed(), leak)
			require.NotContains(t, tr.message(t).Message.Content.String(), leak)
			require.NotContains(t, tr.last().Message.Content.String(), leak)
		})
	}
}

func TestAfterModelReplaces(t *testing.T) {
	t.Parallel()
	edit := &inproc.Middleware{
		AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			res := *in.Response
			res.Message.Content = abi.Text("better")
			return &abi.AfterModelAnswer{Response: &res}, nil
		},
	}
	tr := try(t, agent.Options{Chain: with(t, nativeEntry("edit", edit))}, []scripted.Reply{pieces("first")})
	require.Equal(t, "first", tr.streamed())
	e := tr.message(t)
	require.Equal(t, "better", e.Message.Content.String())
	require.True(t, e.Replaced)
	require.Equal(t, abi.OriginModule+"edit", e.Message.Origin, "the origin names the module")
}

func TestHoldStream(t *testing.T) {
	t.Parallel()
	hold := (*inproc.Middleware)(native.WithModelWrapper(
		func(
			ctx context.Context, _ abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error),
		) (*abi.Response, error) {
			res, err := next(ctx, abi.RequestPatch{})
			if err == nil {
				res.Message.Content = abi.Text("[" + res.Message.Content.String() + "]")
			}
			return res, err
		},
	))
	hold.Description.HoldStream = true
	tr := try(t, agent.Options{Chain: with(t, nativeEntry("hold", hold))}, []scripted.Reply{pieces("text")})
	require.Equal(t, "[text]", tr.streamed())
	require.False(t, tr.message(t).Replaced, "the caller got nothing else")
}

func TestWrapperRetries(t *testing.T) {
	t.Parallel()
	retry := (*inproc.Middleware)(native.WithModelWrapper(
		func(
			ctx context.Context, _ abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error),
		) (*abi.Response, error) {
			if res, err := next(ctx, abi.RequestPatch{}); err == nil {
				return res, nil
			}
			return next(
				ctx,
				abi.RequestPatch{Messages: abi.ListPatch{Splice: []abi.Splice{{At: 1, Insert: []abi.Message{abi.User("again")}}}}},
			)
		},
	))
	t.Run("before anything was delivered", func(t *testing.T) {
		t.Parallel()
		tr := try(t, agent.Options{Chain: with(t, nativeEntry("retry", retry))},
			[]scripted.Reply{{Err: &model.Error{Code: abi.CodeUnavailable, Message: "down"}}, pieces("second")})
		require.NoError(t, tr.err)
		require.Equal(t, []string{"U:hi", "U:again"}, tr.seen(1))
		require.Equal(t, "second", tr.streamed(), "the second attempt is streamed as well")
		require.False(t, tr.message(t).Replaced)
	})
	t.Run("after some of it was", func(t *testing.T) {
		t.Parallel()
		cut := scripted.Reply{Err: &model.Error{Code: abi.CodeModel, Message: "cut"}}
		cut.Chunks = []abi.Chunk{{Kind: abi.ChunkText, Text: "fir"}}
		tr := try(t, agent.Options{Chain: with(t, nativeEntry("retry", retry))}, []scripted.Reply{cut, pieces("second")})
		require.NoError(t, tr.err)
		require.Equal(t, "fir", tr.streamed())
		require.Equal(t, "second", tr.message(t).Message.Content.String())
		require.True(t, tr.message(t).Replaced)
	})
}

func TestAgain(t *testing.T) {
	t.Parallel()
	judged := 0
	judge := &inproc.Middleware{
		AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			judged++
			if in.Response.Message.Content.String() == "good" {
				return nil, nil
			}
			return &abi.AfterModelAnswer{Again: &abi.ModelAgain{Reason: "too short"}}, nil
		},
	}
	o := agent.Options{NoStream: true, Chain: with(t, nativeEntry("judge", judge))}
	tr := try(t, o, []scripted.Reply{scripted.Text("bad"), scripted.Text("bad"), scripted.Text("good")})
	require.NoError(t, tr.err)
	require.Equal(t, "good", tr.last().Message.Content.String())
	require.Equal(t, 3, judged)

	tr = try(
		t,
		o,
		[]scripted.Reply{
			scripted.Text("bad"),
			scripted.Text("bad"),
			scripted.Text("bad"),
			scripted.Text("bad"),
			scripted.Text("never asked"),
		},
	)
	require.NoError(t, tr.err)
	require.Len(t, tr.model.Requests(), 1+contract.MaxAgain, "bounded")
	require.Equal(t, 1, tr.count(abi.EventLog), "the limit is logged")
}

func TestOnChunkFails(t *testing.T) {
	t.Parallel()
	n := 0
	fail := &inproc.Middleware{OnChunk: func(context.Context, *hook.Call, *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
		n++
		return nil, errors.New("unsafe")
	}}
	tr := try(t, agent.Options{Chain: with(t, nativeEntry("fail", fail))}, []scripted.Reply{pieces("some text")})
	require.ErrorContains(t, tr.err, "unsafe")
	require.Empty(t, tr.streamed())
	require.Equal(t, 1, n)
}

func TestSkippedFaults(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	for name, n := range map[string]*inproc.Middleware{
		"before_model": {BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			boom()
			return nil, nil
		}},
		"wrap_model before next": {WrapModel: func(context.Context, *hook.Call, *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			boom()
			return nil, nil
		}},
		"wrap_model after next": {WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			_, _ = c.NextModel(ctx, abi.RequestPatch{})
			boom()
			return nil, nil
		}},
		"on_chunk": {OnChunk: func(context.Context, *hook.Call, *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			boom()
			return nil, nil
		}},
		"a splice that does not fit": {AfterModelRewriteState: func(context.Context, *hook.Call, *abi.AfterModelRewriteStateInput) (*abi.AfterModelRewriteStateAnswer, error) {
			return &abi.AfterModelRewriteStateAnswer{Messages: abi.ListPatch{Splice: []abi.Splice{{At: 99}}}}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := nativeEntry("m", n)
			tr := try(t, agent.Options{Chain: with(t, e)}, []scripted.Reply{pieces("answer"), pieces("never asked")})
			require.ErrorContains(t, tr.err, "m: ", "a fault ends the run")
			require.Equal(t, 1, tr.count(abi.EventFault))

			e.OnFault = hook.Skip
			tr = try(t, agent.Options{Chain: with(t, e)}, []scripted.Reply{pieces("answer"), pieces("never asked")})
			require.NoError(t, tr.err)
			require.Equal(t, "answer", tr.last().Message.Content.String())
			require.Len(t, tr.model.Requests(), 1, "the model is called once")
			require.Equal(t, 1, tr.count(abi.EventFault))
		})
	}
}

func TestObserversSeeTheFinalForm(t *testing.T) {
	t.Parallel()
	var seen []abi.Event
	watch := &inproc.Middleware{
		Observe: func(_ context.Context, c *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			seen = append(seen, in.Events...)
			if err := c.Emit("x", nil); !errors.Is(err, &abi.Error{Code: abi.CodeDenied}) {
				return nil, errors.New("emit in observe was not denied")
			}
			c.Log(contract.LogInfo, "seen")
			return nil, nil
		},
	}
	tr := try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "secret")}, Chain: with(
		t,
		nativeEntry(
			"watch",
			watch,
		),
		nativeEntry("clean", onText(func(s string) string { return strings.ReplaceAll(s, "secret", "*") })),
	)},
		[]scripted.Reply{calls("t#1"), pieces("the secret")})
	var types []string
	for _, e := range seen {
		require.NotEqual(t, "failed", e.Level)
		types = append(types, string(e.Type))
		if e.Type == abi.EventToolResult {
			require.Equal(t, "*", e.Result.Content.String())
		}
	}
	require.Equal(
		t,
		"run_started step_started message tool_call tool_result step_finished step_started message step_finished run_finished",
		strings.Join(types, " "),
	)
	require.Equal(t, abi.EventRunFinished, tr.last().Type, "the last batch comes before that line")
	require.Positive(t, tr.count(abi.EventLog))
}

// TestEachAttemptIsAStream checks that the chunks of a failed attempt and of the next attempt have
// different stream numbers. Otherwise a module would mix them.
func TestEachAttemptIsAStream(t *testing.T) {
	t.Parallel()
	held := map[int64]string{}
	hold := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			for _, c := range in.Chunks {
				held[in.Stream] += c.Text
			}
			if !in.Final {
				return &abi.OnChunkAnswer{Chunks: []abi.Chunk{}}, nil
			}
			return &abi.OnChunkAnswer{Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: held[in.Stream]}}}, nil
		},
	}
	retry := &inproc.Middleware{
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			res, err := c.NextModel(ctx, abi.RequestPatch{})
			if err != nil {
				res, err = c.NextModel(ctx, abi.RequestPatch{})
			}
			return &abi.WrapModelAnswer{Response: res}, err
		},
	}
	broken := pieces("lost")
	broken.Err = &model.Error{Code: abi.CodeModel, Message: "broke off"}
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("hold", hold), nativeEntry("retry", retry))},
		[]scripted.Reply{broken, pieces("found")},
	)
	require.NoError(t, tr.err)
	require.Equal(t, "found", tr.message(t).Message.Content.String())
	require.Equal(t, "found", tr.streamed())
}

func TestACrashLoopIsSwitchedOff(t *testing.T) {
	t.Parallel()
	called := 0
	e := nativeEntry(
		"m",
		&inproc.Middleware{
			BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
				called++
				panic("boom")
			},
		},
	)
	e.OnFault = hook.Skip
	c := with(t, e)
	for range 8 {
		tr := try(t, agent.Options{Chain: c}, []scripted.Reply{pieces("answer")})
		require.NoError(t, tr.err)
		require.Equal(t, 1, tr.count(abi.EventFault), "every run reports the fault")
	}
	require.Equal(t, 5, called, "over all runs of the agent")
}

// A streamFunc is a function as a streaming model.
type streamFunc func(put func(abi.Chunk) error) (*abi.Response, error)

func (f streamFunc) Generate(_ context.Context, _ *model.Request, put func(abi.Chunk) error) (*abi.Response, error) {
	return f(put)
}

// TestEventsReachACallerWhoseRunWaits checks that events reach the caller while the run waits: for
// the model between two chunks or after many chunks, or for a tool.
func TestEventsReachACallerWhoseRunWaits(t *testing.T) {
	t.Parallel()
	seen := make(chan abi.EventType)
	await := func(typ abi.EventType, n int) {
		for range n {
			for got := range seen {
				if got == typ {
					break
				}
			}
		}
	}
	asked := 0
	answer := streamFunc(func(put func(abi.Chunk) error) (*abi.Response, error) {
		await(abi.EventStepStarted, 1)
		asked++
		if asked == 1 {
			m := abi.Assistant("")
			m.ToolCalls = []abi.ToolCall{abi.NewToolCall("call", "wait", "{}")}
			return &abi.Response{Message: m}, nil
		}
		text := ""
		for _, n := range []int{1, 1, 3, 1, 100, 1} {
			for range n {
				text += "a"
				require.NoError(t, put(abi.Chunk{Kind: abi.ChunkText, Text: "a"}))
			}
			await(abi.EventChunk, n)
		}
		return &abi.Response{Message: abi.Assistant(text)}, nil
	})
	wait := tool.Func(
		abi.Tool{Name: "wait", Parameters: []byte(`{"type":"object"}`)},
		func(context.Context, abi.Call) (*abi.Result, error) {
			await(abi.EventToolCall, 1)
			return abi.TextResult("done"), nil
		},
	)
	a, err := agent.New(&agent.Options{Model: answer, Tools: []tool.Tool{wait}})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { // receive the events for which the model and the tool do not wait
		<-ended
		for range seen {
		}
	}()
	for e, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("go")}}) {
		require.NoError(t, err)
		if e.Type == abi.EventMessage && e.Message.Content.String() != "" {
			close(ended)
		}
		select {
		case seen <- e.Type:
		case <-t.Context().Done():
		}
	}
	close(seen)
}
