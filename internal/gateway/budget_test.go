package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
)

// leave posts a request with the key of ann, reads n bytes of the answer, and disconnects. If n is 0, it disconnects
// once the upstream has the request.
func (s *setting) leave(t *testing.T, path, body string, n int, begun <-chan struct{}) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", s.at+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", "secret-of-ann")
	if n == 0 {
		go func() { <-begun; leave() }()
	}
	res, err := http.DefaultClient.Do(req)
	if n == 0 {
		require.ErrorIs(t, err, context.Canceled)
		return
	}
	require.NoError(t, err)
	_, err = io.ReadFull(res.Body, make([]byte, n))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
}

// TestLeavingClientPays checks that the maximum output is charged if the client disconnects before the usage is
// known, before the answer begins and during it.
func TestLeavingClientPays(t *testing.T) {
	for name, mws := range map[string][]*native.Middleware{"no modules": nil, "modules": {reader()}} {
		for _, received := range []int{0, len(streamed)} {
			t.Run(fmt.Sprint(name, ", ", received), func(t *testing.T) {
				begun, gone := make(chan struct{}), make(chan struct{})
				u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					close(begun)
					if received > 0 {
						answers(streamed)(w, r)
					}
					<-r.Context().Done()
					close(gone)
				})
				question := strings.Replace(question, "true", `true,"max_tokens":7000`, 1)
				book, _, options := observed(t, budget.Limits{Tokens: 7000})
				g := newGateway(t, u, options, mws...)
				g.leave(t, "/v1/chat/completions", question, received, begun)
				<-gone
				line := book.requests(t, 1)[0]
				require.Equal(t, "canceled", line["outcome"])
				require.InDelta(t, tokensOf(len(question)), line["input"], 15, "with the wish for the usage")
				require.Equal(t, true, line["estimated"])
				if received > 0 {
					require.Equal(t, 3., line["output"], "the log has what was received")
				}
				status, got, _ := g.ask(t, question, "X-Api-Key", "secret-of-ann")
				require.Equal(t, 400, status)
				require.Contains(t, got, "has spent its budget")
				http.DefaultClient.CloseIdleConnections()
			})
		}
	}
}

// TestLeavingAtEnd checks that only the reported usage is charged if the client disconnects after the upstream's
// report.
func TestLeavingAtEnd(t *testing.T) {
	gone := make(chan struct{}, 1)
	stream := strings.Join(messagesEvents, "\n\n") + "\n\n"
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		answers(stream)(w, r)
		<-r.Context().Done()
		gone <- struct{}{}
	})
	book, _, options := observed(t, budget.Limits{Tokens: 7000})
	g := newGateway(t, u, func(o *Options) { options(o); overMessages(o) })
	for i := range 3 {
		g.leave(t, messagesPath, strings.Replace(messagesQuestion, "true", `true,"max_tokens":7000`, 1), len(stream), nil)
		<-gone
		line := book.requests(t, i+1)[i]
		require.Equal(t, []any{1., 2.}, []any{line["input"], line["output"]})
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestCanceledCount checks that a canceled count of tokens costs nothing.
func TestCanceledCount(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	book, _, options := observed(t, budget.Limits{Tokens: 1})
	g := newGateway(t, u, func(o *Options) { options(o); overMessages(o) })
	g.leave(t, messagesPath+countTokens, messagesQuestion, 0, begun)
	<-gone
	require.NotContains(t, book.requests(t, 1)[0], "input")
	u.answer = answers(`{"input_tokens":7}`)
	status, got, _ := g.post(t, messagesPath+countTokens, messagesQuestion, "X-Api-Key", "secret-of-ann")
	require.Equal(t, 200, status, got)
	http.DefaultClient.CloseIdleConnections()
}

// TestUnestimatedRequests checks that a request whose tokens cannot be estimated is rejected if its key has a budget,
// and accepted otherwise.
func TestUnestimatedRequests(t *testing.T) {
	u := newUpstream(t, answers(whole))
	_, _, options := observed(t, budget.Limits{Tokens: 1e6})
	g := newGateway(t, u, options)
	body := strings.Replace(question, "true", `false,"background":true`, 1)
	status, got, _ := g.ask(t, body, "X-Api-Key", "secret-of-ann")
	require.Equal(t, 400, status)
	require.Contains(t, got, "the key ann has a budget, and the gateway cannot know the tokens that background uses")
	require.Contains(t, got, `"param":"background"`)
	require.Empty(t, u.requests())
	status, _, _ = g.ask(t, body, "X-Api-Key", "secret-of-bob")
	require.Equal(t, 200, status)

	u.answer = answers(`{"input_tokens":7}`)
	g = newGateway(t, u, func(o *Options) { options(o); overMessages(o) })
	body = strings.Replace(messagesQuestion, "true", `true,"thread":{"id":"t"}`, 1)
	status, _, _ = g.post(t, messagesPath+countTokens, body, "X-Api-Key", "secret-of-ann")
	require.Equal(t, 200, status, "a count of tokens costs nothing")
	status, _, _ = g.post(t, messagesPath, body, "X-Api-Key", "secret-of-ann")
	require.Equal(t, 400, status)
}

// TestUsageChunk checks that the gateway asks for the usage of streamed chat completions if the key has a budget, and
// that the client gets it only if it asked.
func TestUsageChunk(t *testing.T) {
	const asks = `"stream_options":{"include_usage":true}`
	plain := streamed + endStop
	full := strings.Replace(plain, withUsage, usageEvent+withUsage, 1)
	u := newUpstream(t, nil)
	u.answer = func(w http.ResponseWriter, r *http.Request) {
		sent := u.requests()
		answers(map[bool]string{true: full, false: plain}[strings.Contains(sent[len(sent)-1], `"include_usage":true`)])(w, r)
	}
	for name, c := range map[string]struct{ key, options, sent, got string }{
		"not asked":     {"ann", "", `,` + asks + `}`, plain},
		"null":          {"ann", `,"stream_options":null`, asks, plain},
		"false":         {"ann", `,"stream_options":{"include_usage":false,"a":1}`, `"stream_options":{"include_usage":true,"a":1}`, plain},
		"other options": {"ann", `,"stream_options":{"a":1}`, `"stream_options":{"a":1,"include_usage":true}`, plain},
		"asked":         {"ann", "," + asks, asks, full},
		"no budget":     {"bob", "", `1.50}}`, plain},
	} {
		for _, mws := range [][]*native.Middleware{nil, {reader(), gate(abi.DecideAllow, "")}} {
			t.Run(fmt.Sprint(name, ", modules: ", len(mws)), func(t *testing.T) {
				book, _, options := observed(t, budget.Limits{Tokens: 1e9})
				g := newGateway(t, u, options, mws...)
				status, got, _ := g.ask(t, strings.Replace(question, "true", "true"+c.options, 1), "X-Api-Key", "secret-of-"+c.key)
				require.Equal(t, 200, status)
				require.Equal(t, c.got, got)
				sent := u.requests()
				require.Contains(t, sent[len(sent)-1], c.sent)
				line := book.requests(t, 1)[0]
				if c.key == "ann" {
					require.Equal(t, []any{5e5, 5e5, 10., nil},
						[]any{line["input"], line["cache_read"], line["output"], line["estimated"]})
				} else {
					require.Equal(t, true, line["estimated"])
				}
			})
		}
	}
}

// TestUsageRemover checks which events of a stream are removed, however the stream ends.
func TestUsageRemover(t *testing.T) {
	chunk := "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n"
	for stream, want := range map[string]string{
		chunk + usageEvent + withUsage:                         chunk + withUsage,
		chunk + strings.TrimSpace(usageEvent):                  chunk,
		chunk + "data: [DONE]":                                 chunk + "data: [DONE]",
		": ping\n\n" + chunk + usageEvent + chunk:              ": ping\n\n" + chunk + chunk,
		"data: {\"choices\":[],\"prompt_filter\":1}\n\n":       "data: {\"choices\":[],\"prompt_filter\":1}\n\n",
		"data: {\"choices\":[{}],\"usage\":{\"a\":1}}\n\n":     "data: {\"choices\":[{}],\"usage\":{\"a\":1}}\n\n",
		"data: {\"error\":{},\"usage\":{}}\n\ndata: x\r\n\r\n": "data: {\"error\":{},\"usage\":{}}\n\ndata: x\r\n\r\n",
		"": "",
	} {
		held := newMemory(nil)
		got, err := io.ReadAll(removeUsage(io.NopCloser(strings.NewReader(stream)), held))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		cut := io.MultiReader(strings.NewReader(stream), iotest.ErrReader(io.ErrUnexpectedEOF))
		_, err = io.ReadAll(removeUsage(io.NopCloser(cut), held))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut connection is no end of the stream")
		held.release()
	}
}
