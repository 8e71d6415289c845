package servertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// A Reply is a response of the server.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request. It sends a body of bytes unchanged, and others as JSON.
func (f *Fixture) Send(method, path, key string, body any, header ...string) *Reply {
	f.T.Helper()
	var sent io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		sent = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		require.NoError(f.T, err)
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(f.T.Context(), method, f.URL+path, sent)
	require.NoError(f.T, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if sent != nil {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := noRedirects.Do(r)
	require.NoError(f.T, err, "%s %s", method, path)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(f.T, err)
	return &Reply{res.StatusCode, res.Header, b}
}

var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Decode decodes a successful response.
func (f *Fixture) Decode(r *Reply, out any) {
	f.T.Helper()
	require.Less(f.T, r.Status, 300, string(r.Body))
	require.NoError(f.T, json.Unmarshal(r.Body, out))
}

// OK sends a request that must succeed, and decodes its response.
func (f *Fixture) OK(method, path, key string, body, out any) *Reply {
	f.T.Helper()
	r := f.Send(method, path, key, body)
	require.Less(f.T, r.Status, 300, "%s %s: %s", method, path, r.Body)
	if out != nil {
		require.NoError(f.T, json.Unmarshal(r.Body, out))
	}
	return r
}

// anthropic returns an error in Anthropic's format as a problem, or nil if the reply is none.
func (r *Reply) anthropic() *httpapi.Problem {
	var e struct {
		Type      string
		Error     struct{ Type, Message string }
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(r.Body, &e) != nil || e.Type != "error" || e.Error.Type == "" || e.RequestID == "" {
		return nil
	}
	return &httpapi.Problem{Problem: api.Problem{Status: r.Status, Detail: e.Error.Message}}
}

// Problem requires a response to be a problem with a status, and returns it.
func (r *Reply) Problem(t *testing.T, status int, what ...any) *httpapi.Problem {
	t.Helper()
	require.Equal(t, status, r.Status, "%v: %s", what, r.Body)
	if a := r.anthropic(); a != nil {
		return a
	}
	require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"), what...)
	var p httpapi.Problem
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&p), string(r.Body))
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	require.True(t, strings.HasPrefix(p.Type, api.ProblemType), p.Type)
	require.Equal(t, "urn:agent-runner:request:"+r.Header.Get("X-Request-Id"), p.Instance)
	return &p
}
