package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

func TestLogin(t *testing.T) {
	const bearer = "Bearer token"
	for name, c := range map[string]struct {
		login   string
		change  func(*Options)
		path    string
		bearer  string
		account string
	}{
		"a login":    {login: "account", path: "/login/responses?a=b", bearer: bearer, account: "account"},
		"an API key": {path: "/v1/responses?a=b", bearer: bearer},
		"a key of the upstream": {
			login: "account", change: func(o *Options) { o.Routes[0].Upstream.Key = "own" },
			path: "/v1/responses?a=b", bearer: "Bearer own",
		},
		"a key of the gateway": {
			login: "account", change: func(o *Options) { o.Keys = []Key{{Name: "a", Secret: "token"}} },
			path: "/v1/responses?a=b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				answers(`{"id":"r","output":[]}`)(w, r)
			})
			s := newGateway(t, u, func(o *Options) {
				up := &o.Routes[0].Upstream
				at, err := url.Parse(u.URL + "/login")
				require.NoError(t, err)
				up.Protocol, up.Path, up.Login = responses.Protocol{}, "/v1/responses", at
				if c.change != nil {
					c.change(o)
				}
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.at+"/v1/responses?a=b",
				strings.NewReader(`{"model":"m","input":"Hi."}`))
			require.NoError(t, err)
			req.Header.Set("Authorization", bearer)
			if c.login != "" {
				req.Header.Set(loginHeader, c.login)
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			defer http.DefaultClient.CloseIdleConnections()
			_, err = io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, c.path, got.URL.String())
			require.Equal(t, c.bearer, got.Header.Get("Authorization"))
			require.Equal(t, c.account, got.Header.Get(loginHeader))
		})
	}
}

func TestLoginURL(t *testing.T) {
	for route, want := range map[string]string{
		"{protocol: responses}": "https://chatgpt.com/backend-api/codex",
		"{protocol: responses, upstream: \"https://api.openai.com\"}": "https://chatgpt.com/backend-api/codex",
		"{protocol: responses, upstream: \"https://proxy.example\"}":  "",
		"{protocol: responses, api_key_env: KEY}":                     "",
		"{protocol: responses, upstream_protocol: chat}":              "",
		"{protocol: chat}":     "",
		"{protocol: messages}": "",
		"{protocol: messages, upstream_protocol: responses}": "",
	} {
		f, err := agentfile.ParseGateway("gateway.yaml", []byte("routes: ["+route+"]"))
		require.NoError(t, err, route)
		got := ""
		if u := LoginURL(&f.Routes[0]); u != nil {
			got = u.String()
		}
		require.Equal(t, want, got, route)
	}
}
