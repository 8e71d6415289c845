package module

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// A sender answers HTTP requests and records them.
type sender struct {
	asked   []abi.HTTPRequest
	granted []string
	answer  func(*abi.HTTPRequest) (*abi.HTTPResponse, error)
}

func (s *sender) Send(_ context.Context, r *abi.HTTPRequest, granted []string) (*abi.HTTPResponse, error) {
	s.asked, s.granted = append(s.asked, *r), granted
	return s.answer(r)
}

func echo(r *abi.HTTPRequest) (*abi.HTTPResponse, error) {
	return &abi.HTTPResponse{
		Status:  201,
		Body:    r.URL,
		Headers: []abi.HTTPHeader{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}},
	}, nil
}

// openPlugin opens a run whose only entry is the named plug-in. The argument h answers its HTTP
// requests.
func openPlugin(t *testing.T, l *Loader, plugin, config string, grants policy.Grants, h hook.HTTP) *testRun {
	t.Helper()
	m, err := l.LoadBytes(t.Context(), plugin, readPlugin(t, plugin), policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	mw, err := Configure(t.Context(), m, "guard", json.RawMessage(config), grants)
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	c, err := chain.New(hook.Entry{Name: "guard", Middleware: mw})
	require.NoError(t, err)
	host := &fakeHost{}
	r, err := c.With(hook.Options{HTTP: h}).Open(t.Context(), abi.Run{ID: "run-1"}, host, local.New())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return &testRun{r, host}
}

// TestHTTP checks the requests and the replies of the host call "http".
func TestHTTP(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	granted := policy.Grants{HTTP: []string{"a.org", "b.org"}}
	reply := func(arg string, grants policy.Grants, h hook.HTTP) string {
		r := openPlugin(t, l, "caller.wasm", `{"call1":"o","arg1":`+arg+`}`, grants, h)
		_, err := r.beforeAgent(t)
		require.NoError(t, err)
		return r.host.logs()[0]
	}
	s := &sender{answer: echo}
	require.Equal(
		t,
		`info {"status":201,"headers":[{"name":"a","value":"1"},{"name":"a","value":"2"}],"body":"https://a.org/"}`,
		reply(
			`{"method":"POST","url":"https://a.org/","headers":[{"name":"x","value":"{{secret:K}}"}],"body":"b","timeout_ms":7}`,
			granted,
			s,
		),
	)
	require.Equal(t, []abi.HTTPRequest{
		{
			Method:    "POST",
			URL:       "https://a.org/",
			Headers:   []abi.HTTPHeader{{Name: "x", Value: "{{secret:K}}"}},
			Body:      "b",
			TimeoutMS: 7,
		},
	}, s.asked)
	require.Equal(t, granted.HTTP, s.granted)
	require.Equal(
		t,
		`info {"error":{"code":"denied","message":"http:a.org is not granted to this entry; add grants: [http:a.org] in agent.yaml"}}`,
		reply(`{"url":"https://a.org/"}`, policy.Grants{}, s),
	)
	require.Equal(t, `info {"error":{"code":"unavailable","message":"http: this host sends no requests"}}`,
		reply(`{"url":"https://a.org/"}`, granted, nil))
	require.Contains(t, reply(`{"url":7}`, granted, s), `"code":"invalid","message":"http: the request: `)
	require.Len(t, s.asked, 1)
	s.answer = func(*abi.HTTPRequest) (*abi.HTTPResponse, error) {
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "http: not there", Retryable: true}
	}
	require.Equal(t, `info {"error":{"code":"unavailable","message":"http: not there","retryable":true}}`,
		reply(`{}`, granted, s))
	s.answer = func(*abi.HTTPRequest) (*abi.HTTPResponse, error) { return nil, errNoDatabase }
	require.Equal(t, `warn`, reply(`{"urll":"https://a.org/"}`, granted, s)[:4])
}

// TestExtismHTTP checks Extism's HTTP functions, and that a replay does not use the network.
func TestExtismHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLoaderWith(t, &LoaderOptions{FaultDir: dir})
	s := &sender{answer: echo}
	program := fmt.Sprintf(`{"program":%q}`, hex.EncodeToString([]byte(assemble(func(p *program) {
		p.block(1, `{"url":"https://a.org/","method":"post","headers":{"X":"1"}}`)
		p.block(2, "body")
		p.do(opHTTPRequest, 1, 2, 3)
		p.do(opLogInfo, 3, 0, 0)
		p.do(opHTTPHeaders, 0, 0, 4)
		p.do(opLogInfo, 4, 0, 0)
		p.do(opHTTPStatus, 0, 0, 5)
		p.do(opLoad8, 5, 0, 6) // a fault that reveals the status
	}))))
	r := openPlugin(t, l, "puppet.wasm", program, policy.Grants{HTTP: []string{"a.org"}}, s)
	_, err := r.beforeAgent(t)
	require.ErrorContains(t, err, "load_u8: 1 bytes at offset 0xc9 are in no block")
	require.Equal(t, []string{`info https://a.org/`, `info {"a":"1,2"}`}, r.host.logs())
	require.Equal(t, []abi.HTTPRequest{
		{Method: "POST", URL: "https://a.org/", Headers: []abi.HTTPHeader{{Name: "X", Value: "1"}}, Body: "body"},
	}, s.asked)
	requireSame(t, onlyBundle(t, dir))
	require.Len(t, s.asked, 1)
}
