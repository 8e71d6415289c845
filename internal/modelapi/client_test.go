package modelapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (fn roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

// client returns a client of an endpoint that answers with the given content type and body.
func client(t testing.TB, p wire.Protocol, contentType string, body func() io.Reader) *Client {
	e, err := New(model.ClientOptions{
		BaseURL: "http://example.com", MaxEvent: 1 << 12, MaxAnswer: 1 << 14, IdleTimeout: 20 * time.Millisecond,
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Request: r,
				Body: struct {
					io.Reader
					io.Closer
				}{canceled{r, body()}, io.NopCloser(nil)}}, nil
		})},
	}, &API{Package: "test"})
	require.NoError(t, err)
	return NewClient(e, p, http.Header{})
}

// A canceled reader fails when its request is canceled, as the body of a response does.
type canceled struct {
	r    *http.Request
	body io.Reader
}

func (c canceled) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if errors.Is(err, errHang) {
		<-c.r.Context().Done()
		return n, c.r.Context().Err()
	}
	return n, err
}

// errHang makes the body of an answer wait for the end of its request.
var errHang = errors.New("hang")

const (
	eventStream = "text/event-stream"
	start       = `data: {"type":"message_start","message":{"content":[]}}` + "\n\n"
)

func ask() *model.Request { return &model.Request{Model: "m", Messages: []abi.Message{abi.User("hi")}} }

// TestLimits checks the errors for endpoints that exceed a limit or a timeout.
func TestLimits(t *testing.T) {
	t.Parallel()
	call := `,{"type":"tool_use","id":"x","name":"f","input":{}}`
	calls := `{"content":[{"type":"text","text":""}` + call + call + `]}`
	line := ": " + strings.Repeat("x", 1000) + "\n\n"
	for name, tc := range map[string]struct {
		contentType, want string
		body              io.Reader
		code              abi.Code
	}{
		"large event":    {eventStream, "more than 4096 bytes", strings.NewReader(strings.Repeat("x", 5000)), abi.CodeModel},
		"large document": {"", "more than 16384 bytes", strings.NewReader(`{"x":"` + strings.Repeat("x", 20_000) + `"}`), abi.CodeModel},
		"large stream":   {eventStream, "more than 16384 bytes", strings.NewReader(strings.Repeat(line, 20)), abi.CodeModel},
		"pause":          {eventStream, "paused for more than 20ms", io.MultiReader(strings.NewReader(start), iotest.ErrReader(errHang)), abi.CodeModel},
		"same call":      {"", "two calls have the ID", strings.NewReader(calls), abi.CodeModel},
		"broken":         {eventStream, "broke off", io.MultiReader(strings.NewReader(start), iotest.ErrReader(io.ErrUnexpectedEOF)), abi.CodeModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, messages.Protocol{}, tc.contentType, func() io.Reader { return tc.body })
			_, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error { return nil })
			var failed *model.Error
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Message, tc.want)
			require.Equal(t, tc.code, failed.Code)
		})
	}
}

// TestMemory checks that an answer that exceeds the run's memory limit is an error, and that its memory is released.
func TestMemory(t *testing.T) {
	t.Parallel()
	c := client(t, messages.Protocol{}, "", func() io.Reader {
		return strings.NewReader(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 512<<10) + `"}]}`)
	})
	c.MaxAnswer = 1 << 20
	run := account.New(account.LevelRun, "r", nil, 64<<10)
	_, err := c.Generate(account.WithContext(t.Context(), run), ask(), nil)
	var failed *model.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, abi.CodeLimit, failed.Code)
	require.Zero(t, run.Used())
}

// TestSink checks that the error of a sink ends the call.
func TestSink(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	c := client(
		t,
		messages.Protocol{},
		"",
		func() io.Reader { return strings.NewReader(`{"content":[{"type":"text","text":"a"}]}`) },
	)
	_, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error { return full })
	require.Same(t, full, err)
}

// FuzzAnswer checks that a client returns an error of type *model.Error or a valid message,
// whatever an endpoint answers. The result must be the same with and without a sink, and however
// the bytes are split.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "{", `{"type":"error","error":{"message":"x"}}`, `{"content":[{"type":"thinking","thinking":"a","signature":"b"},{"type":"text","text":"c"}]}`,
		`{"output":[{"type":"reasoning","summary":[{"text":"a"}]},{"type":"message","content":[{"type":"output_text","text":"b"}]}]}`,
		start + `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}` + "\n\n" +
			`data: {"type":"content_block_stop","index":0}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}` + "\n\n" +
			`data: {"type":"message_stop"}` + "\n\n",
		`data: {"type":"response.output_item.done","item":{"type":"custom_tool_call","call_id":"a","name":"f","input":"x"}}` + "\n\n" +
			`data: {"type":"response.completed","response":{"output":[{"type":"web_search_call"}]}}` + "\n\n",
	} {
		for i := range 4 {
			f.Add(s, i)
		}
	}
	f.Fuzz(func(t *testing.T, answer string, how int) {
		protocol, contentType := wire.Protocol(messages.Protocol{}), eventStream
		if how&1 == 1 {
			protocol = responses.Protocol{}
		}
		if how&2 == 2 {
			contentType = "application/json"
		}
		var want *abi.Response
		for i, cut := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
		} {
			c := client(t, protocol, contentType, func() io.Reader { return cut(strings.NewReader(answer)) })
			c.IdleTimeout = time.Minute
			var sink func(abi.Chunk) error
			if i != 1 {
				sink = func(c abi.Chunk) error { return contract.CheckChunk(&c) }
			}
			res, err := c.Generate(t.Context(), ask(), sink)
			if err != nil {
				var failed *model.Error
				require.ErrorAs(t, err, &failed)
				require.NotEmpty(t, failed.Message)
				res = nil
			} else {
				require.NoError(t, contract.CheckMessage(&res.Message))
				b, err := json.Marshal(res)
				require.NoError(t, err)
				require.NoError(t, jsoncodec.Valid(b))
			}
			if i == 0 {
				want = res
			}
			require.Equal(t, want, res)
		}
	})
}
