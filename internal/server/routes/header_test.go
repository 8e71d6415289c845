package routes

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResponseHeaders checks that headers for browsers and proxies do not pass, and that this server's
// own headers stay.
func TestResponseHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "ours")
	w.Header().Set("Cache-Control", "no-store")
	r := newResponse(w)
	for _, name := range []string{
		"X-Accel-Redirect", "X-Accel-Buffering", "X-Sendfile", "X-Reproxy-URL", "Speculation-Rules", "Origin-Trial",
		"Surrogate-Control", "CDN-Cache-Control", "Cache-Control", "Set-Cookie", "Location", "X-Request-Id",
		"Content-Security-Policy", "Access-Control-Allow-Origin", "Www-Authenticate", "X-Anything",
	} {
		r.Header().Set(name, "theirs")
	}
	want := http.Header{"X-Request-Id": {"ours"}, "Cache-Control": {"no-store"}}
	for _, name := range []string{
		"Content-Type", "Content-Encoding", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id",
		"X-Ratelimit-Remaining-Tokens", "Anthropic-Ratelimit-Tokens-Limit", "Openai-Version",
	} {
		r.Header().Set(name, "theirs")
		want.Set(name, "theirs")
	}
	_, err := r.Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, want, w.Result().Header)
}
