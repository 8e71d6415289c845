package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// serve returns a client of an endpoint with the handler fn.
func serve(t *testing.T, opts model.ClientOptions, fn http.HandlerFunc) model.Client {
	t.Helper()
	s := httptest.NewServer(fn)
	t.Cleanup(s.Close)
	opts.BaseURL, opts.APIKey = s.URL+"/v1", key
	c, err := New(&opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func answers(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// sse formats events as most endpoints do.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// delta returns an event with the delta d of a message.
func delta(d string) string {
	return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}
func finish(f string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + f + `"}]}`
}

func ask() *model.Request {
	return &model.Request{Model: "m", Messages: []abi.Message{abi.User("hi")}}
}

func stream(t *testing.T, c model.Client) (*abi.Response, []abi.Chunk, error) {
	t.Helper()
	var chunks []abi.Chunk
	res, err := c.Generate(t.Context(), ask(), func(c abi.Chunk) error {
		require.NoError(t, contract.CheckChunk(&c))
		chunks = append(chunks, c)
		return nil
	})
	return res, chunks, err
}

func message(t *testing.T, res *abi.Response) string {
	t.Helper()
	b, err := json.Marshal(res.Message)
	require.NoError(t, err)
	return string(b)
}

func said(chunks []abi.Chunk) string {
	b, err := json.Marshal(chunks)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := serve(t, model.ClientOptions{}, answers("text/event-stream", sse(
		delta(`{"content":"a"}`),
		finish("stop"),
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4.0,"total_tokens":null,"details":{"cached":1}}}`,
		"[DONE]",
	)))
	res, _, err := stream(t, c)
	require.NoError(t, err)
	require.Equal(t, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, res.Usage)
}

// TestWhatIsSent checks the path, headers and body of requests, with and without streaming, and
// that the client does not change the caller's request.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	var got struct {
		path, body string
		header     http.Header
	}
	c := serve(
		t,
		model.ClientOptions{Headers: map[string]string{"X-Team": "blue"}},
		func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got.path, got.body, got.header = r.URL.RequestURI(), string(b), r.Header
			answers("application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)(w, r)
		},
	)
	var assistant abi.Message
	require.NoError(
		t,
		json.Unmarshal(
			[]byte(
				`{"role":"assistant","content":[{"type":"video","video":{"fps":30.0}}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1e3}}],"refusal":null}`,
			),
			&assistant,
		),
	)
	assistant.ID, assistant.Origin, assistant.Extra, assistant.ReasoningContent = "m7", abi.OriginModel, json.RawMessage(
		`{"x":1}`,
	), "hm"
	req := &model.Request{
		Model:    "o1", // a model for which go-openai has its own checks
		Messages: []abi.Message{abi.System("a <b> & c"), assistant},
		Tools: []abi.Tool{
			{
				Name:        "f",
				Description: "does",
				Parameters:  json.RawMessage(`{"type":"object","x-unknown":1.0}`),
				Owner:       "host",
				Idempotent:  true,
			}, {Name: "g"},
		},
		Params: abi.Params{
			"temperature":    json.RawMessage("0"),
			"max_tokens":     json.RawMessage("10"),
			"seed":           json.RawMessage("1.0"),
			"new_thing":      json.RawMessage(`{"a":[null,0]}`),
			"stream_options": json.RawMessage(`{}`),
		},
	}
	const sent = `{"model":"o1","messages":[{"role":"system","content":"a <b> & c"},` +
		`{"role":"assistant","content":[{"type":"video","video":{"fps":30.0}}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1e3}}],"reasoning_content":"hm","refusal":null}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","x-unknown":1.0}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],`
	const params = `"max_tokens":10,"new_thing":{"a":[null,0]},"seed":1.0,`

	_, err := c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, "/v1/chat/completions", got.path)
	require.Equal(t, sent+params+`"temperature":0}`, got.body, "stream_options only go with stream")
	require.Equal(t, "Bearer "+key, got.header.Get("Authorization"))
	require.Equal(t, "blue", got.header.Get("X-Team"))
	require.Equal(t, "application/json", got.header.Get("Accept"))
	require.Equal(t, "application/json", got.header.Get("Content-Type"))

	_, err = c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.NoError(t, err)
	require.Equal(t, sent+`"stream":true,`+params+`"stream_options":{},"temperature":0}`, got.body)

	delete(req.Params, "stream_options")
	_, err = c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.NoError(t, err)
	require.Equal(t, sent+`"stream":true,`+params+`"stream_options":{"include_usage":true},"temperature":0}`, got.body)
	require.Equal(t, "text/event-stream", got.header.Get("Accept"))
	require.Equal(t, "m7", req.Messages[1].ID, "the request is the caller's")
}

func TestParametersThatAreNone(t *testing.T) {
	t.Parallel()
	c, err := New(&model.ClientOptions{})
	require.NoError(t, err)
	for _, p := range []abi.Params{
		{"messages": json.RawMessage("[]")}, {"stream": json.RawMessage("true")}, {"seed": json.RawMessage(`1,"model":"x"`)},
		{"seed": nil},
		// These keys differ from messages, model and tools, but endpoints written in Go decode them
		// as such.
		{"Messages": json.RawMessage("[]")}, {"me\u017f\u017fages": json.RawMessage("[]")}, {"MODEL": json.RawMessage(`"x"`)}, {"tool\u017f": json.RawMessage("[]")},
	} {
		req := ask()
		req.Params = p
		_, err := c.Generate(t.Context(), req, nil)
		var e *model.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, abi.CodeInvalid, e.Code)
		require.False(t, e.Retryable)
	}
}

func TestReasoningGoesBackByItsName(t *testing.T) {
	t.Parallel()
	var body string
	c := serve(t, model.ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		answers("application/json", `{"choices":[{"message":{"content":"a","reasoning":"hm"},"finish_reason":"stop"}]}`)(w, r)
	})
	res, err := c.Generate(t.Context(), ask(), nil)
	require.NoError(t, err)
	req := ask()
	req.Messages = append(req.Messages, res.Message)
	_, err = c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Contains(t, body, `{"role":"assistant","content":"a","reasoning":"hm"}`)
}

func TestStreamOptionsRefused(t *testing.T) {
	t.Parallel()
	var asked, refused atomic.Int32
	c := serve(t, model.ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "stream_options") {
			refused.Add(1)
			w.WriteHeader(422)
			_, _ = io.WriteString(w, `{"detail":"`+strings.Repeat("x", 1000)+` stream_options: extra fields not permitted"}`)
			return
		}
		_, _ = io.WriteString(w, sse(delta(`{"content":"a"}`), finish("stop")))
	})
	for range 3 {
		_, _, err := stream(t, c)
		require.NoError(t, err)
	}
	require.EqualValues(t, 4, asked.Load(), "remembered after the first time")
	require.EqualValues(t, 1, refused.Load())

	req := ask()
	req.Params = abi.Params{"stream_options": json.RawMessage(`{"include_usage":true}`)}
	_, err := c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.ErrorContains(t, err, "answered 422", "whoever asks for them gets the error")
}

func TestNotReached(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := New(
		&model.ClientOptions{
			BaseURL: strings.Replace(s.URL, "http://", "http://u:password@", 1) + "/v1/?token=abcdef",
			APIKey:  key,
		},
	)
	require.NoError(t, err)
	_, err = c.Generate(t.Context(), ask(), nil)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, abi.CodeUnavailable, e.Code)
	require.True(t, e.Retryable)
	require.Contains(t, e.Message, "cannot connect to "+s.URL+"/v1: connection refused; is it running")
	for _, secret := range []string{key, "password", "abcdef"} {
		require.NotContains(t, fmt.Sprintf("%v %v", err, errors.Unwrap(err)), secret)
	}
}

func TestQueryAndCredentialsOfTheBaseURL(t *testing.T) {
	t.Parallel()
	var path string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.RequestURI()
		w.WriteHeader(400)
		_, _ = io.WriteString(w, "bad token abcdef for hunter2")
	}))
	defer s.Close()
	c, err := New(
		&model.ClientOptions{BaseURL: strings.Replace(s.URL, "http://", "http://u:hunter2@", 1) + "/v1/?token=abcdef"},
	)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Generate(t.Context(), ask(), nil)
	require.ErrorContains(t, err, "bad token *** for ***")
	require.Equal(t, "/v1/chat/completions?token=abcdef", path)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c, err := New(&model.ClientOptions{BaseURL: s.URL})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Generate(t.Context(), ask(), nil)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "securely")
}

// hold answers with first, then waits until the client disconnects.
func hold(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice the disconnect
		if first != "" {
			_, _ = io.WriteString(w, first)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts  model.ClientOptions
		first string
		want  string
		code  abi.Code
	}{
		"no answer":       {model.ClientOptions{FirstByteTimeout: 20 * time.Millisecond}, "", "did not answer within 20ms", abi.CodeUnavailable},
		"no first byte":   {model.ClientOptions{FirstByteTimeout: 20 * time.Millisecond}, " ", "", ""},
		"a pause":         {model.ClientOptions{IdleTimeout: 20 * time.Millisecond}, sse(delta(`{"content":"a"}`)), "broke off: it paused for more than 20ms", abi.CodeModel},
		"a pause, unsent": {model.ClientOptions{IdleTimeout: 20 * time.Millisecond}, "data: {", "broke off: it paused for more than 20ms", abi.CodeModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.want == "" { // the space counts as the first byte, so the idle timeout applies
				tc.opts.IdleTimeout, tc.want, tc.code = 20*time.Millisecond, "paused", abi.CodeModel
			}
			c := serve(t, tc.opts, hold(tc.first))
			_, _, err := stream(t, c)
			var e *model.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, tc.want)
			require.Equal(t, tc.code, e.Code)
			require.True(t, e.Retryable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "only the run's own deadline has this error")
		})
	}
}

func TestEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"before": "", "in the middle": sse(delta(`{"content":"a"}`))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			c := serve(t, model.ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if first == "" {
					cancel()
				}
				hold(first)(w, r)
			})
			_, err := c.Generate(ctx, ask(), func(abi.Chunk) error {
				cancel()
				return nil
			})
			require.Equal(t, context.Canceled, err)
		})
	}
}

func TestSinkEndsTheCall(t *testing.T) {
	t.Parallel()
	c := serve(t, model.ClientOptions{}, hold(sse(delta(`{"content":"a"}`))))
	full := errors.New("full")
	_, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error { return full })
	require.Same(t, full, err)
}

// TestSlowSink checks that the idle timeout does not include time in a sink.
func TestSlowSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body := iotest.OneByteReader(
			strings.NewReader(sse(delta(`{"content":"a"}`), delta(`{"content":"b"}`), finish("stop"))),
		)
		c, err := New(
			&model.ClientOptions{
				IdleTimeout: time.Second,
				HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body)}, nil
				})},
			},
		)
		require.NoError(t, err)
		res, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error {
			time.Sleep(time.Hour)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "ab", res.Message.Content.String())
	})
}

// TestConnectionsAreUsedAgain checks that the client reuses the connection if an endpoint closes
// its stream in time, and that it returns the answer of an endpoint that does not close its
// stream.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(answers("text/event-stream", sse(delta(`{"content":"a"}`), finish("stop"), "[DONE]")))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := New(&model.ClientOptions{BaseURL: s.URL})
	require.NoError(t, err)
	defer c.Close()
	for range 5 {
		_, _, err := stream(t, c)
		require.NoError(t, err)
	}
	require.Less(t, connections.Load(), int32(5), "one, unless this machine is very busy")

	open := serve(t, model.ClientOptions{}, hold(sse(delta(`{"content":"a"}`), finish("stop"), "[DONE]")))
	res, _, err := stream(t, open)
	require.NoError(t, err)
	require.Equal(t, "a", res.Message.Content.String())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]model.ClientOptions{
		"no scheme":      {BaseURL: "localhost:8080/v1"},
		"another scheme": {BaseURL: "ftp://x"},
		"no host":        {BaseURL: "http://"},
		"not a URL":      {BaseURL: "http://u:pass word@\x7f"},
		"negative":       {IdleTimeout: -1},
		"header":         {Headers: map[string]string{"X": "a\nb"}},
		"key":            {APIKey: "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(&opts)
			require.ErrorContains(t, err, "openai: ")
			require.NotContains(t, err.Error(), "pass word")
		})
	}
}
