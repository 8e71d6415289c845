package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// fakeHTTP returns options for an HTTP server. respond answers calls of the tool "work"; everything
// else behaves correctly.
func fakeHTTP(t *testing.T, respond func(w http.ResponseWriter, r *http.Request, id string)) *Options {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req fakeRequest
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		id := string(req.ID)
		switch {
		case id == "":
			w.WriteHeader(http.StatusAccepted)
		case req.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "session")
			asJSON(
				w,
				id,
				`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`,
			)
		case req.Method == "tools/list":
			asJSON(
				w,
				id,
				`{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}}]}`,
			)
		case req.Params.Name == "other":
			asJSON(w, id, `{"content":[{"type":"text","text":"other: well"}]}`)
		default:
			respond(w, r, id)
		}
	}))
	t.Cleanup(server.Close)
	return &Options{Name: "fake", URL: server.URL + "/mcp?key=SECRET", Timeout: 20 * time.Second, MaxMessage: 1 << 20}
}

func asJSON(w http.ResponseWriter, id, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func asEvents(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
}

func textResult(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, text)
}

// brokenOff announces more bytes than it sends.
func brokenOff(w http.ResponseWriter, kind, text string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", "100000")
	fmt.Fprint(w, text)
}

func TestHTTPCalls(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		respond func(w http.ResponseWriter, r *http.Request, id string)
		want    string // the result's text, or a part of the error
	}{
		"JSON": {func(w http.ResponseWriter, _ *http.Request, id string) {
			asJSON(w, id, `{"content":[],"structuredContent":9007199254740993}`)
		}, "9007199254740993"},
		"events": {func(w http.ResponseWriter, _ *http.Request, id string) {
			asEvents(w, ": hello", "event: message", `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, "", "data:"+textResult(id, "well"), "")
		}, "well"},
		"an odd line": {func(w http.ResponseWriter, _ *http.Request, id string) {
			asEvents(w, "oops", "data: "+textResult(id, "well"), "")
		}, "well"},
		"huge JSON": {func(w http.ResponseWriter, _ *http.Request, id string) { asJSON(w, id, `"`+huge+`"`) }, "bytes; at most 1048576 are read"},
		"huge event": {func(w http.ResponseWriter, _ *http.Request, id string) {
			asEvents(w, "data: "+textResult(id, huge), "")
		}, "bytes; at most 1048576 are read"},
		"huge comment": {func(w http.ResponseWriter, _ *http.Request, id string) {
			asEvents(w, ": "+huge, "data: "+textResult(id, "well"), "")
		}, "well"},
		"not JSON":        {func(w http.ResponseWriter, _ *http.Request, _ string) { brokenJSON(w) }, "the answer is no JSON-RPC message: "},
		"bad event":       {func(w http.ResponseWriter, _ *http.Request, _ string) { asEvents(w, "data: {}", "") }, "an event is no JSON-RPC message: "},
		"HTML":            {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "<html>Log in, please") }, `content of type "text/html", not JSON or an event stream`},
		"JSON breaks off": {func(w http.ResponseWriter, _ *http.Request, _ string) { brokenOff(w, "application/json", `{"jsonrpc`) }, "the answer broke off: unexpected EOF"},
		"events break off": {func(w http.ResponseWriter, _ *http.Request, id string) {
			brokenOff(w, "text/event-stream", "data: "+textResult(id, "well"))
		}, "request terminated without response"},
		"no events":     {func(w http.ResponseWriter, _ *http.Request, _ string) { asEvents(w) }, "request terminated without response"},
		"no connection": {func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, `/mcp: EOF`},
		"overload":      {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusServiceUnavailable) }, "Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := byName(t, connected(t, fakeHTTP(t, tc.respond)))
			res, err := call(t.Context(), tools["work"])
			if err == nil {
				require.Equal(t, tc.want, res.Content.String())
			} else {
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "SECRET")
				var coded *abi.Error
				require.ErrorAs(t, err, &coded)
			}
			require.Equal(t, "other: well", ask(t, tools["other"], `{}`).Content.String(), "the session is not lost for it")
		})
	}
}

func brokenJSON(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"jsonrpc":"1.0"}`)
}

func TestHTTPConnectFails(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }),
	)
	defer server.Close()
	for code, want := range map[int]string{401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error"} {
		status.Store(int64(code))
		_, err := Connect(t.Context(), &Options{URL: server.URL + "/?key=SECRET"})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, server.URL+"/: ")
		require.NotContains(t, err.Error(), "SECRET")
	}
	server.Close()
	_, err := Connect(t.Context(), &Options{URL: server.URL + "/?key=SECRET"})
	require.Error(t, err)
	require.Regexp(t, "connection (refused|reset)", err.Error()) // reset if a connection was left open
	require.NotContains(t, err.Error(), "SECRET")
}

// TestHTTPCancel checks that a canceled call returns its cause, that the server sees the request
// end, and that other calls of the session succeed.
func TestHTTPCancel(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream", ""} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			called, over := make(chan struct{}), make(chan struct{})
			tools := byName(t, connected(t, fakeHTTP(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				if kind != "" { // starts to answer
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
				}
				close(called)
				<-r.Context().Done()
				close(over)
			})))
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			go func() { <-called; cancel(cause) }()
			_, err := call(ctx, tools["work"])
			require.ErrorIs(t, err, cause)
			<-over
			require.Equal(t, "other: well", ask(t, tools["other"], `{}`).Content.String())
		})
	}
}

func TestHTTPCloseDoesNotWait(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	o := fakeHTTP(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		close(called)
		<-r.Context().Done()
	})
	s, err := Connect(t.Context(), o)
	require.NoError(t, err)
	work := byName(t, s)["work"]
	failed := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), work)
		failed <- err
	}()
	<-called
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-failed, &abi.Error{Code: abi.CodeUnavailable})
	_, err = call(t.Context(), work)
	require.ErrorContains(t, err, "it was closed")
}

// TestHTTPSessionIsGone checks that calls fail without a request once the session is gone.
func TestHTTPSessionIsGone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	tools := byName(t, connected(t, fakeHTTP(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		calls.Add(1)
		w.WriteHeader(http.StatusNotFound)
	})))
	for range 2 {
		_, err := call(t.Context(), tools["work"])
		require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})
		require.ErrorContains(t, err, "session not found")
	}
	require.EqualValues(t, 1, calls.Load())
}

// TestHeadersStay checks that the server receives the headers, which may be secret, and that the
// target of a redirect does not.
func TestHeadersStay(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("X-Key") != "")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer elsewhere.Close()
	var keys atomic.Int64
	o := fakeHTTP(t, func(w http.ResponseWriter, r *http.Request, id string) {
		if r.Header.Get("X-Key") == "secret" {
			keys.Add(1)
		}
		if r.Header.Get("X-Key") != "" && keys.Load() > 1 {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		asJSON(w, id, `{"content":[]}`)
	})
	o.Headers = map[string]string{"X-Key": "secret"}
	work := byName(t, connected(t, o))["work"]
	ask(t, work, `{}`)
	require.EqualValues(t, 1, keys.Load())
	_, err := call(t.Context(), work)
	require.Error(t, err)
	require.EqualValues(t, 2, keys.Load())
	require.False(t, leaked.Load())
}

// TestHTTPWithSDKServer checks that the client works with the SDK's own server, with and without
// sessions.
func TestHTTPWithSDKServer(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		impl := sdk.NewServer(&sdk.Implementation{Name: "own", Version: "1"}, nil)
		type in struct {
			N int `json:"n"`
		}
		sdk.AddTool(
			impl,
			&sdk.Tool{Name: "double", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
				if a.N == 13 {
					return nil, nil, errors.New("unlucky")
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(2 * a.N)}}}, nil, nil
			},
		)
		server := httptest.NewServer(
			sdk.NewStreamableHTTPHandler(
				func(*http.Request) *sdk.Server { return impl },
				&sdk.StreamableHTTPOptions{Stateless: stateless},
			),
		)
		t.Cleanup(server.Close)
		double := byName(t, connected(t, &Options{URL: server.URL}))["double"]
		require.True(t, double.Declaration().Idempotent)
		require.Equal(t, "42", ask(t, double, `{"n":21}`).Content.String())
		unlucky := ask(t, double, `{"n":13}`)
		require.True(t, unlucky.IsError)
		require.Equal(t, "unlucky", unlucky.Content.String())
	}
}
