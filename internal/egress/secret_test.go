package egress

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestSecrets checks that secrets are filled into all parts of a request and redacted from the
// response, that they are sent only to their hosts and over https, and that their number is
// limited.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprint(
			w,
			r.URL.Path,
			"|",
			r.URL.RawQuery,
			"|",
			r.URL.Query().Get("k"),
			"|",
			string(body),
			"|",
			string(body) == `{"key":"`+secretValue+`"}`,
			"|",
			`"s3cr3t/\"value\"+\u0026="`,
		)
	})
	host := "example.com:" + s.port
	s.options.Secrets = []Secret{{Name: "K", Value: secretValue, Hosts: []string{host}}}
	c := s.client(t)
	res, failed := send(
		t,
		c,
		&abi.HTTPRequest{
			Method:  "POST",
			URL:     "https://" + host + "/p/{{secret:K}}?k={{secret:K}}",
			Headers: []abi.HTTPHeader{{Name: "Authorization", Value: "Bearer {{secret:K}}"}},
			Body:    `{"key":"{{secret:K}}"}`,
		},
		host,
	)
	require.Nil(t, failed)
	require.NotContains(t, fmt.Sprint(res), "s3cr3t/\"")
	require.Contains(t, res.Body, `/p/{{secret:K}}|k={{secret:K}}|{{secret:K}}|{"key":"{{secret:K}}"}|true|`)
	require.Contains(t, res.Headers, abi.HTTPHeader{Name: "x-echo", Value: "Bearer {{secret:K}}"})

	for name, r := range map[string]*abi.HTTPRequest{
		"url":    {URL: "https://127.0.0.1:" + s.port + "/?{{secret:K}}"},
		"header": {URL: "https://127.0.0.1:" + s.port + "/", Headers: []abi.HTTPHeader{{Name: "X", Value: "{{secret:K}}"}}},
		"body":   {URL: "https://127.0.0.1:" + s.port + "/", Method: "POST", BodyBase64: base64.StdEncoding.EncodeToString([]byte("{{secret:K}}"))},
	} {
		refused(t, c, abi.CodeDenied, name, r, "*:*")
		refused(t, c, abi.CodeDenied, "secret K is not for 127.0.0.1", r, "*:*")
	}
	refused(
		t,
		c,
		abi.CodeDenied,
		"there is no secret NONE",
		&abi.HTTPRequest{URL: "https://" + host + "/{{secret:NONE}}"},
		"*:*",
	)
	refused(
		t,
		c,
		abi.CodeInvalid,
		"not followed by a name",
		&abi.HTTPRequest{URL: "https://" + host + "/{{secret:K"},
		"*:*",
	)
	refused(t, c, abi.CodeDenied, "over https only", &abi.HTTPRequest{URL: "http://" + host + "/{{secret:K}}"}, "*:*")
	refused(
		t,
		c,
		abi.CodeLimit,
		"more than 64 secrets",
		&abi.HTTPRequest{URL: "https://" + host, Body: strings.Repeat("{{secret:K}}", 65)},
		"*:*",
	)
	s.Close()
	refused(
		t,
		c,
		abi.CodeUnavailable,
		"http: "+host,
		&abi.HTTPRequest{URL: "https://" + host + "/{{secret:K}}"},
		"*:*",
	)
}

// TestSecretsInOtherSpellings checks that a server cannot return a secret in another encoding, in
// the body, in a header or in a redirect.
func TestSecretsInOtherSpellings(t *testing.T) {
	t.Parallel()
	const value = `s3cr3t/"v+lue"&=<x>%41`
	var answer func(w http.ResponseWriter, secret string)
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) { answer(w, r.Header.Get("X-Key")) })
	host := "example.com:" + s.port
	s.options.Secrets = []Secret{
		{Name: "K", Value: value, Hosts: []string{host}},
		{Name: "NAME", Value: "X-Secret-Name", Hosts: []string{host}},
	}
	c := s.client(t)
	ask := func(headers ...abi.HTTPHeader) *abi.HTTPRequest {
		return &abi.HTTPRequest{
			URL:     "https://" + host + "/",
			Headers: append(headers, abi.HTTPHeader{Name: "X-Key", Value: "{{secret:K}}"}),
		}
	}
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) }
	for name, encode := range map[string]func(string) string{
		`\/`:              func(s string) string { return strings.ReplaceAll(quote(s), "/", `\/`) },
		`\u0026`:          quote,
		`\u0026 in upper`: func(s string) string { return strings.ReplaceAll(quote(s), `\u003c`, `\u003C`) },
		"%2b": func(s string) string {
			return strings.NewReplacer("%2B", "%2b", "%2F", "%2f").Replace(url.QueryEscape(s))
		},
		"%252B":            func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
		"HTML":             html.EscapeString,
		"HTML in JSON":     func(s string) string { return quote(html.EscapeString(s)) },
		"all as &#x":       func(s string) string { return each(s, "&#x%X;") },
		"all as %":         func(s string) string { return each(s, "%%%02x") },
		"all as \\u":       func(s string) string { return each(s, "\\u%04X") },
		"decoded":          func(s string) string { s, _ = url.PathUnescape(s); return s },
		"base64":           func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64 of a user": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + s)) },
	} {
		answer = func(w http.ResponseWriter, secret string) {
			w.Header().Set("X-Echo", encode(secret))
			fmt.Fprintf(w, "it is %s.", encode(secret))
		}
		res, failed := send(t, c, ask(), host)
		require.Nil(t, failed)
		require.Contains(t, res.Body, "{{secret:K}}", name)
		require.NotContains(t, res.Body, encode(value), name)
		require.NotContains(t, fmt.Sprint(res.Headers), encode(value), name)
		if name[0] != 'b' {
			require.Equal(t, "it is {{secret:K}}.", res.Body, name)
		}

		hops := 0
		answer = func(w http.ResponseWriter, secret string) {
			if hops++; hops == 1 {
				w.Header().Set("Location", "/there?k="+encode(secret))
				w.WriteHeader(http.StatusFound)
			}
		}
		res, failed = send(t, c, ask(), host)
		require.Equal(t, 2, hops)
		require.Nil(t, failed)
		require.Contains(t, res.URL, "{{secret:K}}", name)
		require.NotContains(t, res.URL, encode(value), name)
	}

	answer = func(w http.ResponseWriter, _ string) { w.Header().Set("X-Secret-Name", "1") }
	res, failed := send(t, c, ask(abi.HTTPHeader{Name: "X-Name", Value: "{{secret:NAME}}"}), host)
	require.Nil(t, failed)
	require.NotContains(t, strings.ToLower(fmt.Sprint(res)), "x-secret-name", "the name of a header")

	answer = func(w http.ResponseWriter, _ string) { fmt.Fprint(w, strings.Repeat("%25", 1<<18)) }
	s.options.Secrets[0].Value = strings.Repeat("%", 1000) + "b"
	refused(t, s.client(t), abi.CodeLimit, "too many nested escapes", ask(), host)
}

// TestSecretsInSlices checks that a module whose request contains a secret receives neither a part
// of a response nor a compressed one.
func TestSecretsInSlices(t *testing.T) {
	t.Parallel()
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", r.URL.RawQuery)
		}
		http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader("Hello "+r.Header.Get("X-Key")))
	})
	host := "example.com:" + s.port
	s.options.Secrets = []Secret{{Name: "K", Value: secretValue, Hosts: []string{host}}}
	c := s.client(t)
	for _, name := range []string{"Range", "range", "If-Range", "A-IM"} {
		h := abi.HTTPHeader{Name: name, Value: "bytes=0-9"}
		for _, r := range []*abi.HTTPRequest{
			{Headers: []abi.HTTPHeader{h, {Name: "X-Key", Value: "{{secret:K}}"}}},
			{Headers: []abi.HTTPHeader{h}, Method: "POST", Body: "{{secret:K}}"},
		} {
			r.URL = "https://" + host + "/"
			refused(t, c, abi.CodeDenied, "header "+name+" is not allowed in a request with a secret", r, host)
			r.URL, r.Headers, r.Body = r.URL+"?{{secret:K}}", []abi.HTTPHeader{h}, ""
			refused(t, c, abi.CodeDenied, "not allowed in a request with a secret", r, host)
		}
	}
	res, failed := send(
		t,
		c,
		&abi.HTTPRequest{
			URL:     "https://" + host + "/",
			Headers: []abi.HTTPHeader{{Name: "Range", Value: "bytes=1-3"}},
		},
		host,
	)
	require.Nil(t, failed)
	require.Equal(t, "ell", res.Body, "without a secret it is the module's own affair")

	key := []abi.HTTPHeader{{Name: "X-Key", Value: "{{secret:K}}"}}
	refused(
		t,
		c,
		abi.CodeUnavailable,
		"content-encoding gzip",
		&abi.HTTPRequest{URL: "https://" + host + "/gzip?gzip", Headers: key},
		host,
	)
	refused(
		t,
		c,
		abi.CodeUnavailable,
		"content-encoding identity,%20br",
		&abi.HTTPRequest{URL: "https://" + host + "/gzip?identity,%20br", Headers: key},
		host,
	)
	for path, headers := range map[string][]abi.HTTPHeader{"/gzip?identity": key, "/gzip?gzip": nil} {
		_, failed := send(t, c, &abi.HTTPRequest{URL: "https://" + host + path, Headers: headers}, host)
		require.Nil(t, failed, path)
	}
}

func TestSecretsRefused(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]Secret{
		"want a name":       {Name: "a b", Value: "12345678", Hosts: []string{"a.org"}},
		"is empty":          {Name: "K", Hosts: []string{"a.org"}},
		"fewer than":        {Name: "K", Value: "1234567", Hosts: []string{"a.org"}},
		"more than":         {Name: "K", Value: strings.Repeat("x", 17<<10), Hosts: []string{"a.org"}},
		"line breaks":       {Name: "K", Value: "12345678\n", Hosts: []string{"a.org"}},
		"holds {{secret:":   {Name: "K", Value: "{{secret:K}}", Hosts: []string{"a.org"}},
		"names no host":     {Name: "K", Value: "12345678"},
		"no dot at its end": {Name: "K", Value: "12345678", Hosts: []string{"a.org."}},
	} {
		_, err := New(&Options{Secrets: []Secret{k}})
		require.ErrorContains(t, err, want)
	}
	twice := Secret{Name: "K", Value: "12345678", Hosts: []string{"a.org"}}
	_, err := New(&Options{Secrets: []Secret{twice, twice}})
	require.ErrorContains(t, err, "twice")

	env := func(name string) string { return map[string]string{"V": "12345678"}[name] }
	k, err := ParseSecret("K=env:V@a.org,*.b.org:8443", env)
	require.NoError(t, err)
	require.Equal(t, Secret{Name: "K", Value: "12345678", Hosts: []string{"a.org", "*.b.org:8443"}}, k)
	for _, text := range []string{
		"", "K", "K=12345678", "K=env:V", "K=env:@a.org", "K=env:V@", "K=env:NONE@a.org", "=env:V@a.org", "K=env:V@a.org,",
	} {
		_, err := ParseSecret(text, env)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "12345678")
	}
}
