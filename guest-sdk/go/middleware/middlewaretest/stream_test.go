package middlewaretest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// Example_stream shows a wrapper that reads an answer while it streams and passes on something else:
// here only whole words, in capital letters.
func Example_stream() {
	wrap := func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		held := ""
		stream := next.Stream(req)
		for chunk := range stream.Chunks() {
			if chunk.Kind != abi.ChunkText {
				if err := ctx.Send(chunk); err != nil {
					return nil, err
				}
				continue
			}
			held += chunk.Text
			if i := strings.LastIndex(held, " "); i >= 0 {
				if err := ctx.SendText(strings.ToUpper(held[:i+1])); err != nil {
					return nil, err
				}
				held = held[i+1:]
			}
		}
		if err := stream.End(); err != nil {
			return nil, err
		}
		return nil, ctx.SendText(strings.ToUpper(held))
	}
	host := middlewaretest.New(middleware.Options{}, middleware.WithModelWrapper(wrap))
	host.Pieces = 3
	host.Model = func(middlewaretest.ModelCall) (*abi.Response, error) {
		return &abi.Response{Message: abi.Assistant("one two three")}, nil
	}
	answer, err := host.WrapModel(abi.WrapModelInput{})
	fmt.Println(answer.Response, err)
	for _, chunk := range host.Sent {
		fmt.Printf("%q\n", chunk.Text)
	}
	// Output:
	// <nil> <nil>
	// "ONE "
	// "TWO "
	// "THREE"
}

type modelWrap = func(*middleware.Context, *middleware.Request, middleware.NextModel) (*abi.Response, error)

// each returns a wrapper that sends every chunk with its text changed.
func each(change func(string) string) modelWrap {
	return func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		stream := next.Stream(req)
		for chunk := range stream.Chunks() {
			chunk.Text = change(chunk.Text)
			if err := ctx.Send(chunk); err != nil {
				return nil, err
			}
		}
		return nil, stream.End()
	}
}

func bracket(s string) string { return "[" + s + "]" }

func TestStream(t *testing.T) {
	t.Parallel()
	passes := func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		return next(req)
	}
	var seen []string
	sees := func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		reply, err := next(req)
		if err == nil {
			seen = append(seen, reply.Message.Content.String())
		}
		return reply, err
	}
	framed := func(ctx *middleware.Context, _ *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		if err := ctx.SendText("<"); err != nil {
			return nil, err
		}
		if _, err := next(nil); err != nil {
			return nil, err
		}
		return nil, ctx.SendText(">")
	}
	for name, tc := range map[string]struct {
		wraps  []modelWrap
		sent   string
		answer string // "" if there is none
		err    string
		fails  error
		seen   string
	}{
		"each piece":                        {wraps: []modelWrap{each(strings.ToUpper)}, sent: "ABCD"},
		"by both of a module":               {wraps: []modelWrap{each(bracket), each(strings.ToUpper)}, sent: "[AB][CD]"},
		"by the outer one, past the inner":  {wraps: []modelWrap{each(bracket), passes}, sent: "[ab][cd]"},
		"by the inner one, past the outer":  {wraps: []modelWrap{sees, each(strings.ToUpper)}, sent: "ABCD", seen: "ABCD"},
		"by the outer one, what is framed":  {wraps: []modelWrap{each(bracket), framed}, sent: "[<][ab][cd][>]"},
		"framed by the inner one, and seen": {wraps: []modelWrap{sees, framed}, sent: "<>", seen: "<abcd>"},
		"answered by the inner one": {wraps: []modelWrap{each(bracket), func(*middleware.Context, *middleware.Request, middleware.NextModel) (*abi.Response, error) {
			return &abi.Response{Message: abi.Assistant("own")}, nil
		}}, sent: "[own]"},
		"read and handed on": {wraps: []modelWrap{func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			stream := next.Stream(req)
			return stream.Reply(), stream.End()
		}}},
		"answered beside what was sent": {wraps: []modelWrap{func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			_, err := each(strings.ToUpper)(ctx, req, next)
			return &abi.Response{Message: abi.Assistant("other")}, err
		}}, sent: "ABCD", answer: "other"},
		"left": {wraps: []modelWrap{func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			stream := next.Stream(nil)
			for chunk := range stream.Chunks() {
				if err := ctx.Send(chunk); err != nil {
					return nil, err
				}
				break
			}
			if stream.Reply() != nil {
				return nil, errors.New("a stream that was left has a reply")
			}
			return nil, stream.End()
		}}, sent: "ab"},
		"failed":                {wraps: []modelWrap{each(bracket)}, fails: errors.New("broken"), err: "broken"},
		"failed behind another": {wraps: []modelWrap{each(bracket), passes}, fails: errors.New("broken"), err: "broken"},
		"refused": {wraps: []modelWrap{func(ctx *middleware.Context, _ *middleware.Request, _ middleware.NextModel) (*abi.Response, error) {
			return nil, ctx.Send(abi.Chunk{Kind: abi.ChunkToolResult})
		}}, err: "send: chunks[0]: a tool_result in wrap_model"},
	} {
		t.Run(name, func(t *testing.T) {
			seen = nil
			var wraps []middleware.Middleware
			for _, w := range tc.wraps {
				wraps = append(wraps, middleware.WithModelWrapper(w))
			}
			h := middlewaretest.New(middleware.Options{}, wraps...)
			h.Pieces = 2
			h.Model = func(middlewaretest.ModelCall) (*abi.Response, error) {
				return &abi.Response{Message: abi.Assistant("abcd")}, tc.fails
			}
			answer, err := h.WrapModel(abi.WrapModelInput{})
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			sent := ""
			for _, c := range h.Sent {
				sent += c.Text
			}
			require.Equal(t, tc.sent, sent)
			if tc.answer == "" {
				require.Nil(t, answer.Response, "what the host knows is not said")
			} else {
				require.Equal(t, tc.answer, answer.Response.Message.Content.String())
			}
			if tc.seen != "" {
				require.Equal(t, []string{tc.seen}, seen)
			}
		})
	}
}

func TestStreamOfATool(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, middleware.WithToolCallWrapper(
		func(ctx *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
			call.Arguments = `{"loud":true}`
			stream := next.Stream(call)
			for batch := range stream.Batches() {
				for _, c := range batch {
					if err := ctx.SendText(strings.ToUpper(c.Text)); err != nil {
						return nil, err
					}
				}
			}
			return nil, stream.End()
		}))
	h.Tool = func(call abi.Call) (*abi.Result, error) {
		require.JSONEq(t, `{"loud":true}`, call.Arguments)
		return abi.TextResult("done"), nil
	}
	answer, err := h.WrapToolCall(abi.WrapToolCallInput{Call: abi.Call{ID: "c1", Name: "t", Arguments: "{}"}})
	require.NoError(t, err)
	require.Nil(t, answer.Result)
	require.Equal(t, []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "DONE"}}, h.Sent)
}

// TestToolSends checks that a module's tool can send its result in pieces.
func TestToolSends(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, middleware.WithTools(middleware.Tool{
		Tool: abi.Tool{Name: "count", Parameters: []byte(`{"type":"object"}`)},
		Run: func(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
			for _, s := range strings.Fields(call.Arguments) {
				if err := ctx.SendText(s); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}}))
	answer, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "count", Arguments: "1 2"}})
	require.NoError(t, err)
	require.Nil(t, answer.Result)
	require.Len(t, h.Sent, 2)
	_, err = h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "count"}})
	require.ErrorContains(t, err, "neither a result nor an error")
}
