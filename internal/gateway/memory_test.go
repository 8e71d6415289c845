package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/account"
)

// TestMemory checks that requests and answers are counted, that none is accepted beyond the limit, and
// that all memory is released.
func TestMemory(t *testing.T) {
	long := strings.Repeat("a", 40<<10)
	question := strings.Replace(question, "abc", long, 1)
	held := strings.Replace(call, `\"a\"`, `\"`+long+`\"`, 1)
	for name, c := range map[string]struct {
		limit            int64
		question, answer string
		mws              []*native.Middleware
		status           int
		want             string
	}{
		"enough":                 {1 << 20, question, streamed + held + endCalls, []*native.Middleware{gate(abi.DecideAllow, "")}, 200, "[DONE]"},
		"a request":              {64 << 10, question, whole, nil, 413, "more than 65536 bytes of memory"},
		"a request with modules": {64 << 10, question, whole, []*native.Middleware{reader()}, 413, "more than 65536 bytes of memory"},
		"a stream that waits":    {128 << 10, strings.Replace(question, long, "", 1), streamed + held + endCalls, []*native.Middleware{gate(abi.DecideAllow, "")}, 200, "more than 131072 bytes of memory"},
		"an answer":              {64 << 10, strings.Replace(strings.Replace(question, long, "", 1), "true", "false", 1), strings.Replace(whole, "world", long, 1), []*native.Middleware{reader()}, 413, "bytes of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answers(c.answer))
			all := account.New(account.LevelProcess, "gateway", nil, c.limit)
			g := newGateway(t, u, func(o *Options) { o.Memory = all }, c.mws...)
			status, got, _ := g.ask(t, c.question)
			require.Equal(t, c.status, status, got)
			require.Contains(t, got, c.want)
			require.NotZero(t, all.Peak())
			require.Eventually(t, func() bool { return all.Used() == 0 }, 5*time.Second, time.Millisecond)
		})
	}
}

// TestMemoryIsShared checks that a request is rejected while others hold the memory, with advice to
// repeat it.
func TestMemoryIsShared(t *testing.T) {
	u := newUpstream(t, answers(whole))
	all := account.New(account.LevelProcess, "gateway", nil, 256<<10)
	g := newGateway(t, u, func(o *Options) { o.Memory = all }, reader())
	body, rest := io.Pipe()
	slow := make(chan error, 1)
	go func() {
		res, err := http.Post(g.at+"/v1/chat/completions", "application/json", body)
		if err == nil {
			err = res.Body.Close()
		}
		slow <- err
	}()
	_, err := io.WriteString(rest, strings.Repeat(" ", 100<<10))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return all.Used() >= 200<<10 }, 5*time.Second, time.Millisecond)
	status, got, header := g.ask(t, strings.Replace(question, "abc", strings.Repeat("a", 40<<10), 1))
	require.Equal(t, http.StatusTooManyRequests, status, got)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Contains(t, got, "no memory left")
	require.NoError(t, rest.Close())
	require.NoError(t, <-slow)
	http.DefaultClient.CloseIdleConnections()
}
