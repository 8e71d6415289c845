package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/testcache"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A spanCollector records the names of the spans it receives.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	names []string
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		b, _ := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(b, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range req.ResourceSpans {
			for _, s := range s.ScopeSpans {
				for _, s := range s.Spans {
					c.names = append(c.names, s.Name)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// got returns the names received so far.
func (c *spanCollector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.names...)
}

// TestSpansAreSent checks that a run sends its spans to the endpoint in the environment before
// the process exits, and that a run without a reachable endpoint succeeds and reports the error.
func TestSpansAreSent(t *testing.T) {
	t.Parallel()
	server := newSpanCollector(t)
	run := func(at string) (code int, errors string) {
		var out, err bytes.Buffer
		e := &cli.Env{In: bytes.NewReader(nil), Out: &out, Err: &err, Getenv: func(name string) string {
			switch name {
			case hosting.EnvOTLP:
				return at
			case hosting.EnvCacheDir:
				return testcache.Modules()
			default:
				return ""
			}
		}}
		return execute(context.Background(), e, []string{"run", "Use calculator."}), err.String()
	}
	code, text := run(server.URL)
	require.Zero(t, code, text)
	require.NotContains(t, text, "spans")
	require.ElementsMatch(t, []string{"invoke_agent agent", "chat echo", "execute_tool calculator", "chat echo"},
		server.got())

	server.Close()
	code, text = run(server.URL)
	require.Zero(t, code, "a run does not fail for want of a collector")
	require.Contains(t, text, "send spans to")
}
