package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOrigin checks that an allowed origin is a scheme, a host and an optional port, and that the
// response to a request from this origin repeats the origin unchanged.
func FuzzOrigin(f *testing.F) {
	for _, seed := range []string{
		"https://app.example.com", "https://*.example.com:8443", "http://[::1]:3000", "null", "*",
		"https://a\r\nX: y", "https://user@example.com", "https://example.com.", "https://*.com", "https://10.0.0.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckOrigin(text) != nil {
			return
		}
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, text, u.Scheme+"://"+u.Host)
		require.NotContains(t, text, " ")
		require.Nil(t, u.User)
		require.Equal(t, strings.ToLower(text), text)
		origin, ok := crossOrigin(&http.Request{Host: "server.example", Header: http.Header{
			"Origin": {text}, "Sec-Fetch-Site": {"cross-site"}}})
		require.Equal(t, !strings.Contains(text, "*"), ok)
		if ok {
			require.Equal(t, text, origin)
			require.NotEqual(t, text, wildcardOf(text))
		}
	})
}
