package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/five"
)

// inEino returns a peer that runs an Eino agent with the five middlewares as Eino's own handlers.
func inEino(ctx context.Context, name string, conversation []abi.Message) (*peer, error) {
	lookup, err := utils.InferTool("search", "Searches the orders.", func(ctx context.Context, _ struct {
		Query string `json:"query"`
	}) (string, error) {
		runCountsOf(ctx).calls.Add(1)
		return found(), nil
	})
	if err != nil {
		return nil, err
	}
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "bench", Description: "bench", Instruction: "You know all orders.", Model: einoModel{},
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{lookup}}},
		Handlers:    []adk.ChatModelAgentMiddleware{&einoPatch{}, &einoCache{}, &einoRedact{}, &einoPolicy{}, &einoObserve{}},
	})
	if err != nil {
		return nil, err
	}
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent, EnableStreaming: true})
	messages := toEino(conversation)
	return &peer{name: name, close: func() {}, run: func(ctx context.Context) (result, error) {
		r := result{Counts: map[string]int{}}
		var text strings.Builder
		o := &observed{counts: map[string]int{}}
		ctx, saw := withRunCounts(ctx)
		events := runner.Run(context.WithValue(ctx, observedKey{}, o), messages)
		for {
			e, ok := events.Next()
			if !ok {
				r.Text, r.Counts, r.Calls, r.Mended = text.String(), o.counts, saw.calls.Load(), saw.repaired.Load()
				return r, nil
			}
			if e.Err != nil {
				return r, e.Err
			}
			if e.Output == nil || e.Output.MessageOutput == nil {
				continue
			}
			out := e.Output.MessageOutput
			if out.Role == schema.Tool {
				m, err := out.GetMessage()
				if err != nil {
					return r, err
				}
				r.Results = append(r.Results, m.Content)
				continue
			}
			for {
				m, err := out.MessageStream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return r, err
				}
				if m.Content != "" {
					text.WriteString(m.Content)
					r.Chunks++
				}
			}
		}
	}}, nil
}

func toEino(messages []abi.Message) []*schema.Message {
	out := make([]*schema.Message, len(messages))
	for i := range messages {
		m := &schema.Message{Role: schema.RoleType(messages[i].Role), Content: messages[i].Content.String()}
		for _, c := range messages[i].ToolCalls {
			m.ToolCalls = append(
				m.ToolCalls,
				schema.ToolCall{
					ID:       c.ID,
					Type:     "function",
					Function: schema.FunctionCall{Name: c.Function.Name, Arguments: c.Function.Arguments},
				},
			)
		}
		out[i] = m
	}
	return out
}

// einoModel is a stateless Eino model that streams its answer at once.
type einoModel struct{}

func (einoModel) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	return nil, errors.New("it is asked for streams")
}

func (einoModel) Stream(
	ctx context.Context,
	input []*schema.Message,
	_ ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	for i, m := range input[1:] {
		if m.ToolCallID == dangling && m.Content == canceled && len(input[i].ToolCalls) > 0 {
			runCountsOf(ctx).repaired.Add(1)
		}
	}
	results := 0
	for i := len(input) - 1; input[i].Role != schema.User; i-- {
		if input[i].Role == schema.Tool {
			results++
		}
	}
	text, call := step(results)
	if call != "" {
		return schema.StreamReaderFromArray([]*schema.Message{schema.AssistantMessage("", []schema.ToolCall{
			{
				ID:       fmt.Sprintf("call_%d", results),
				Type:     "function",
				Function: schema.FunctionCall{Name: "search", Arguments: call},
			}})}), nil
	}
	var pieces []*schema.Message
	for _, word := range strings.SplitAfter(text, " ") {
		pieces = append(pieces, schema.AssistantMessage(word, nil))
	}
	return schema.StreamReaderFromArray(pieces), nil
}

type einoPatch struct {
	*adk.BaseChatModelAgentMiddleware
}

func (*einoPatch) BeforeModelRewriteState(
	ctx context.Context,
	state *adk.ChatModelAgentState,
	_ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	answered := map[string]bool{}
	for _, m := range state.Messages {
		if m.Role == schema.Tool {
			answered[m.ToolCallID] = true
		}
	}
	next := *state
	next.Messages = make([]*schema.Message, 0, len(state.Messages)+1)
	for _, m := range state.Messages {
		next.Messages = append(next.Messages, m)
		for _, c := range m.ToolCalls {
			if !answered[c.ID] {
				next.Messages = append(next.Messages, schema.ToolMessage(canceled, c.ID, schema.WithToolName(c.Function.Name)))
			}
		}
	}
	return ctx, &next, nil
}

type einoPolicy struct {
	*adk.BaseChatModelAgentMiddleware
}

func (*einoPolicy) WrapInvokableToolCall(
	_ context.Context,
	next adk.InvokableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return func(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
		if ok, why := five.Allowed(tc.Name, arguments); !ok {
			return why, nil
		}
		return next(ctx, arguments, opts...)
	}, nil
}

type einoRedact struct {
	*adk.BaseChatModelAgentMiddleware
}

func (*einoRedact) WrapModel(
	_ context.Context,
	m model.BaseChatModel,
	_ *adk.ModelContext,
) (model.BaseChatModel, error) {
	return redactedModel{m}, nil
}

type redactedModel struct{ model.BaseChatModel }

func (m redactedModel) Stream(
	ctx context.Context,
	input []*schema.Message,
	opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	reader, err := m.BaseChatModel.Stream(ctx, input, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderWithConvert(reader, func(m *schema.Message) (*schema.Message, error) {
		text, n := five.Redact(m.Content)
		if n == 0 {
			return m, nil
		}
		out := *m
		out.Content = text
		return &out, nil
	}), nil
}

func (*einoRedact) WrapInvokableToolCall(
	_ context.Context,
	next adk.InvokableToolCallEndpoint,
	_ *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return func(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
		text, err := next(ctx, arguments, opts...)
		text, _ = five.Redact(text)
		return text, err
	}, nil
}

// einoCache caches tool results in Eino's run-local values.
type einoCache struct {
	*adk.BaseChatModelAgentMiddleware
}

func (*einoCache) WrapInvokableToolCall(
	_ context.Context,
	next adk.InvokableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return func(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
		key := five.Key(tc.Name, arguments)
		if kept, ok, err := adk.GetRunLocalValue(ctx, key); err != nil || ok {
			text, _ := kept.(string)
			return text, err
		}
		text, err := next(ctx, arguments, opts...)
		if err != nil {
			return "", err
		}
		return text, adk.SetRunLocalValue(ctx, key, text)
	}, nil
}

// einoObserve counts messages and results.
type einoObserve struct {
	*adk.BaseChatModelAgentMiddleware
}

type observedKey struct{}

type observed struct {
	mu     sync.Mutex
	counts map[string]int
}

func (o *observed) count(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[name]++
}

func (*einoObserve) AfterModelRewriteState(
	ctx context.Context,
	state *adk.ChatModelAgentState,
	_ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	ctx.Value(observedKey{}).(*observed).count("message")
	return ctx, state, nil
}

func (*einoObserve) BeforeModelRewriteState(
	ctx context.Context,
	state *adk.ChatModelAgentState,
	_ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	for i := len(state.Messages) - 1; i > 0 && state.Messages[i].Role == schema.Tool; i-- {
		ctx.Value(observedKey{}).(*observed).count("tool_result")
	}
	return ctx, state, nil
}
