package egress

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

func TestPatternMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, url string
		want         bool
	}{
		{"api.example.com", "https://api.example.com/", true},
		{"api.example.com", "http://api.example.com/", true},
		{"API.Example.com", "https://api.EXAMPLE.com", true},
		{"api.example.com", "https://api.example.com:443/", true},
		{"api.example.com", "https://api.example.com:80/", false},
		{"api.example.com", "https://api.example.com:8443/", false},
		{"api.example.com:8443", "https://api.example.com:8443/", true},
		{"api.example.com:8443", "https://api.example.com/", false},
		{"api.example.com:*", "https://api.example.com:8443/", true},
		{"api.example.com", "https://example.com/", false},
		{"api.example.com", "https://evil-api.example.com/", false},
		{"api.example.com", "https://api.example.com.evil.org/", false},
		{"*.example.com", "https://a.b.example.com/", true},
		{"*.example.com", "https://example.com/", false},
		{"*.example.com", "https://evilexample.com/", false},
		{"*", "https://anything.org/", true},
		{"*", "https://anything.org:81/", false},
		{"*:*", "https://anything.org:81/", true},
		{"*.2.3.4", "https://1.2.3.4/", false},
		{"192.0.2.7", "http://192.0.2.7/", true},
		{"[2001:db8::7]:8443", "https://[2001:0db8:0:0::7]:8443/", true},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", true},
		{"xn--bcher-kva.example", "https://xn--bcher-kva.example/", true},
	} {
		t.Run(tc.pattern+" "+tc.url, func(t *testing.T) {
			p, err := ParsePattern(tc.pattern)
			if tc.pattern == "*.2.3.4" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			_, to, err := checkURL(tc.url)
			require.NoError(t, err)
			require.Equal(t, tc.want, p.match(to))
		})
	}
}

func TestPatternRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", ":443", "*.", "*.*.com", "a*.com", "ex ample.com", "https://x.com", "x.com/", "x.com:0", "x.com:65536",
		"x.com:080", "x.com:http", "::1", "[::1", "[::1]80", "[1.2.3.4]", "bücher.example", "x.com.", "x..com", "%31.com",
		"*.127.0.0.1", "0x7f.1", strings.Repeat("a.", 130) + "com",
	} {
		_, err := ParsePattern(s)
		require.Error(t, err, s)
	}
}

// TestURLRefused checks that malformed URLs are rejected, and URLs that different programs parse
// differently.
func TestURLRefused(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                                    "there is none",
		"example.com":                                         "want https://HOST",
		"ftp://example.com/":                                  "want https://HOST",
		"file:///etc/passwd":                                  "want https://HOST",
		"https:example.com":                                   "want https://HOST",
		"https:///x":                                          "there is no host",
		"https://user@example.com/":                           "user or password",
		"https://a:b@example.com/":                            "user or password",
		"https://example.com\\@evil/":                         "backslash",
		"https://example.com /":                               "a space",
		"https://exa\tmple.com/":                              "a space",
		"https://example.com/\r\nX: y":                        "a space",
		"https://example.com/\xff":                            "a space",
		"https://example.com./":                               "no dot at its end",
		"https://.example.com/":                               "empty part",
		"https://bücher.example/":                             "ASCII form",
		"https://ⓔxample.com/":                                "ASCII form",
		"https://127。0。0。1/":                                  "ASCII form",
		"https://ex%61mple.com/":                              "no zone and no %",
		"http://[fe80::1%25eth0]/":                            "no zone and no %",
		"http://[fe80::1%eth0]/":                              "no zone and no %",
		"http://2130706433/":                                  "looks like an address",
		"http://017700000001/":                                "looks like an address",
		"http://0x7f000001/":                                  "looks like an address",
		"http://0x7f.1/":                                      "looks like an address",
		"http://127.1/":                                       "looks like an address",
		"http://0177.0.0.1/":                                  "looks like an address",
		"http://127.0.0.0x1/":                                 "looks like an address",
		"http://127.0.0.1./":                                  "no dot at its end",
		"http://1.2.3.4.5/":                                   "looks like an address",
		"http://256.1.1.1/":                                   "looks like an address",
		"http://99999999999999999999/":                        "looks like an address",
		"http://example.0x/":                                  "looks like an address",
		"http://[::1/":                                        "does not end with ]",
		"http://::1/":                                         "needs brackets",
		"http://[127.0.0.1]/":                                 "only IPv6",
		"http://[::g]/":                                       "not a valid IPv6",
		"http://example.com:/":                                "not a port",
		"http://example.com:99999/":                           "not a port",
		"http://example.com:+80/":                             "not a port",
		"http://example.com:*/":                               "not a number",
		"http://{{secret:HOST}}/":                             "cannot be a secret",
		"https://x.{{secret:HOST}}.com":                       "cannot be a secret",
		"http://example.com/%zz":                              "malformed",
		"http://ex<ample.com/":                                "has no '<'",
		"http://" + strings.Repeat("a", 64) + ".com/":         "at most 63",
		"http://example.com/" + strings.Repeat("a", 9<<10):    "at most 8192",
		"http://" + strings.Repeat("a.", 127) + "com/":        "at most 253",
		"http://example.com#@evil.org/":                       "",
		"http://example.com?@evil.org/":                       "",
		"HTTPS://EXAMPLE.com":                                 "",
		"https://example.com/a?b={{secret:K}}&c=%20#fragment": "",
	} {
		_, err := prepare(&abi.HTTPRequest{URL: url})
		if want == "" {
			require.NoError(t, err, url)
			continue
		}
		require.ErrorContains(t, err, want, url)
	}
	s, to, err := checkURL("HTTPS://EXAMPLE.com:443?x=1#y")
	require.NoError(t, err)
	require.Equal(t, "https://example.com/?x=1", s)
	require.Equal(t, endpoint{"https", "example.com", "443"}, to)
}

func TestRequestRefused(t *testing.T) {
	t.Parallel()
	header := func(name, value string) *abi.HTTPRequest {
		return &abi.HTTPRequest{URL: "https://example.com/", Headers: []abi.HTTPHeader{{Name: name, Value: value}}}
	}
	for name, r := range map[string]*abi.HTTPRequest{
		"method":            {URL: "https://example.com/", Method: "CONNECT"},
		"lower case":        {URL: "https://example.com/", Method: "get"},
		"split method":      {URL: "https://example.com/", Method: "GET / HTTP/1.1\r\nX:"},
		"negative time":     {URL: "https://example.com/", TimeoutMS: -1},
		"both bodies":       {URL: "https://example.com/", Body: "a", BodyBase64: "YQ=="},
		"not base64":        {URL: "https://example.com/", BodyBase64: "YQ"},
		"many headers":      {URL: "https://example.com/", Headers: make([]abi.HTTPHeader, 65)},
		"host":              header("Host", "evil.org"),
		"framing":           header("Transfer-Encoding", "chunked"),
		"length":            header("Content-Length", "5"),
		"connection":        header("CONNECTION", "close"),
		"upgrade":           header("Upgrade", "websocket"),
		"proxy":             header("Proxy-Authorization", "x"),
		"forwarded":         header("X-Forwarded-For", "127.0.0.1"),
		"compression":       header("Accept-Encoding", "gzip"),
		"no name":           header("", "x"),
		"space in a name":   header("x ", "x"),
		"colon in a name":   header("x:y", "x"),
		"line break":        header("X", "a\r\nHost: evil.org"),
		"zero":              header("X", "a\x00"),
		"not UTF-8":         header("X", "\xff"),
		"large":             header("X", strings.Repeat("a", 33<<10)),
		"pseudo":            header(":authority", "evil.org"),
		"non-ASCII in name": header("hóst", "x"),
	} {
		_, err := prepare(r)
		require.Error(t, err, name)
	}
	for _, name := range []string{"Authorization", "content-type", "X-Api-Key", "Cookie", "User-Agent", "If-None-Match"} {
		_, err := prepare(header(name, "a b\tc é"))
		require.NoError(t, err, name)
	}
}

// FuzzURL checks that an accepted URL leads to the endpoint that was checked.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"https://example.com/", "http://[::1]:80/", "http://a@b", "https://x/{{secret:K}}?{{secret:K}}", "http://127.1",
		"https://x:443#y", "http://x/%2e%2e/",
	} {
		f.Add(s)
	}
	c, err := New(&Options{Secrets: []Secret{{Name: "K", Value: "se/cr?et#@:&", Hosts: []string{"*:*"}}}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		r, err := prepare(&abi.HTTPRequest{URL: s})
		if err != nil {
			return
		}
		again, to, err := checkURL(r.url)
		require.NoError(t, err)
		require.Equal(t, r.to, to)
		require.Equal(t, r.url, again)
		address, err := (&filler{client: c, to: r.to}).url(r.url)
		if err != nil {
			return
		}
		_, to, err = checkURL(address)
		require.NoError(t, err)
		require.Equal(t, r.to, to, "a secret does not change where a request goes")
	})
}
