package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/gateway/budget"
)

// slowly posts a chat completion with a key, and returns a connection on which the body is missing.
func (s *setting) slowly(t *testing.T, key string) net.Conn {
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.at, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(
		c,
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nX-Api-Key: "+key+"\r\n\r\n{",
	)
	require.NoError(t, err)
	return c
}

// TestSlotsOfOneKey checks that one of several keys takes at most half of the slots.
func TestSlotsOfOneKey(t *testing.T) {
	u := newUpstream(t, answers(whole))
	_, r, options := observed(t, budget.Limits{})
	g := newGateway(t, u, func(o *Options) { options(o); o.MaxRequests = 4 })
	for range 2 {
		g.slowly(t, "secret-of-ann")
	}
	require.Eventually(t, func() bool { return counts(t, r)["requests_active"] == 2 }, 5*time.Second, time.Millisecond)
	var header http.Header
	require.Eventually(t, func() bool { // the slots are taken a moment after the requests begin
		status, got, h := g.ask(t, question, "X-Api-Key", "secret-of-ann")
		header = h
		return status == http.StatusTooManyRequests && strings.Contains(got, "2 of the key ann are in progress")
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, "1", header.Get("Retry-After"))
	status, _, _ := g.ask(t, question, "X-Api-Key", "secret-of-bob")
	require.Equal(t, http.StatusOK, status)
}

// TestSlowBody checks that a client that does not send its request loses its slot and its connection, and that the
// rate of a key is checked before its request takes a slot.
func TestSlowBody(t *testing.T) {
	u := newUpstream(t, answers(whole))
	book, r, options := observed(t, budget.Limits{RequestsPerMinute: 1})
	g := newGateway(t, u, func(o *Options) { options(o); o.Timeout = 50 * time.Millisecond })
	for _, want := range []string{"the request did not arrive within 50ms", "the key ann has sent 1 requests a minute"} {
		c := g.slowly(t, "secret-of-ann")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		b, err := io.ReadAll(c) // returns when the server closes the connection
		require.NoError(t, err)
		require.Contains(t, string(b), want)
	}
	lines := book.requests(t, 2)
	require.Equal(t, []any{nil, "test"}, []any{lines[0]["route"], lines[1]["route"]}, "the only one of its endpoint")
	all := counts(t, r)
	require.Equal(t, 1., all["requests_total /v1/chat/completions ann rate test"], all)
	require.Equal(t, []any{"request_timeout", "rate"}, []any{lines[0]["outcome"], lines[1]["outcome"]})
}
