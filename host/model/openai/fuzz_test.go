package openai

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (fn roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

// FuzzAnswer checks that the client returns an error of type *model.Error or a valid message,
// whatever an endpoint answers. It also checks that the result is the same with and without a
// sink, and however the bytes are split.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "{", "[", "<html>", "data", ":\n", "data: [DONE]", "data:\n\n", "event: error\ndata: x\n\n",
		sse(delta(`{"content":"a"}`), finish("stop"), "[DONE]"),
		sse(delta(`{"content":[{"type":"text","text":"a"},{"type":"x"}],"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}`), delta(`{"tool_calls":[{"function":{"arguments":"1}"}}]}`), finish("x")),
		sse(delta(`{"refusal":"a","list":[1]}`), delta(`{"refusal":"b","list":[]}`),
			delta(`{"refusal":null,"list":[2]}`), finish("x")),
		`{"choices":[{"message":{"content":"a","reasoning":"b","tool_calls":[{}]}}],"usage":{"prompt_tokens":1e99}}`,
		`{"error":{"error":{"error":"deep"}}}`, `{"choices":[{"delta":null,"message":null}]}`, "data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		client := func(cut func(io.Reader) io.Reader) model.Client {
			c, err := New(
				&model.ClientOptions{
					MaxEvent:  1 << 12,
					MaxAnswer: 1 << 14,
					HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
						return &http.Response{
							StatusCode: 200,
							Header:     http.Header{},
							Body:       io.NopCloser(cut(strings.NewReader(answer))),
						}, nil
					})},
				},
			)
			require.NoError(t, err)
			return c
		}
		whole := client(func(r io.Reader) io.Reader { return r })
		res, err := whole.Generate(t.Context(), ask(), func(c abi.Chunk) error { return contract.CheckChunk(&c) })
		if err != nil {
			var e *model.Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Message)
		} else {
			require.NoError(t, contract.CheckMessage(&res.Message))
			b, err := json.Marshal(res)
			require.NoError(t, err)
			require.NoError(t, jsoncodec.Valid(b))
		}
		for _, again := range []model.Client{whole, client(iotest.OneByteReader), client(iotest.DataErrReader)} {
			res2, err2 := again.Generate(t.Context(), ask(), nil)
			require.Equal(t, res, res2)
			require.Equal(t, err == nil, err2 == nil)
		}
	})
}

// FuzzEvents checks that go-openai neither skips the lines of events nor handles them as errors,
// and that a failure is a *model.Error.
func FuzzEvents(f *testing.F) {
	f.Add("data: {\"error\":1}\n\ndata: a\ndata: b\n\n: c\n\nevent: error\ndata: {\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		at := &modelapi.Endpoint{ClientOptions: model.ClientOptions{MaxEvent: 1 << 10}}
		out, err := io.ReadAll(&events{r: bufio.NewReaderSize(strings.NewReader(s), 16), at: at})
		var e *model.Error
		require.True(t, err == nil || errors.As(err, &e), "%v", err)
		for line := range strings.Lines(string(out)) {
			require.True(t, strings.HasPrefix(line, "data: ") && strings.HasSuffix(line, "\n"), "%q", line)
			require.False(t, strings.HasPrefix(line, `data: {"`), "%q", line)
		}
	})
}

// BenchmarkStream reads an answer of 1,000 deltas.
func BenchmarkStream(b *testing.B) {
	events := make([]string, 1000)
	for i := range events {
		events[i] = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`
	}
	answer := sse(append(events, finish("stop"), "[DONE]")...)
	c, err := New(
		&model.ClientOptions{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
		})}},
	)
	require.NoError(b, err)
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		if _, err := c.Generate(b.Context(), ask(), func(abi.Chunk) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
