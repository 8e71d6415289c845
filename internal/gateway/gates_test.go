package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/approver"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
)

// TestApprover checks that a call for which a gate asks reaches the client if the approver allows it, and that the
// client of a stream gets pings while the approver decides.
func TestApprover(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		mws    []*native.Middleware
		want   string
		asked  bool
	}{
		"allowed":        {`{"decision":"allow"}`, []*native.Middleware{gate(abi.DecideAsk, "sure?")}, call + endCalls, true},
		"denied":         {`{"decision":"deny","reason":"not today"}`, []*native.Middleware{gate(abi.DecideAsk, "sure?")}, "[m1 denied the call of rm: not today]", true},
		"no answer":      {`no`, []*native.Middleware{gate(abi.DecideAsk, "sure?")}, "was not approved: the approver's answer is no JSON object.", true},
		"another denies": {`{"decision":"allow"}`, []*native.Middleware{gate(abi.DecideAsk, "sure?"), gate(abi.DecideDeny, "never")}, "[m2 denied the call of rm: never]", false},
	} {
		t.Run(name, func(t *testing.T) {
			pinged := make(chan struct{})
			var got approver.Question
			asked := false
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = true
				_ = json.NewDecoder(r.Body).Decode(&got)
				<-pinged
				_, _ = w.Write([]byte(c.answer))
			}))
			defer s.Close()
			a, err := approver.New(approver.Options{URL: s.URL})
			require.NoError(t, err)
			defer a.Close()
			u := newUpstream(t, answers(streamed+call+endCalls))
			book, _, options := observed(t, budget.Limits{})
			g := newGateway(t, u, func(o *Options) {
				options(o)
				o.Approver, o.keepAlive = a, time.Millisecond
			}, c.mws...)
			req, err := http.NewRequestWithContext(t.Context(), "POST", g.at+"/v1/chat/completions", strings.NewReader(question))
			require.NoError(t, err)
			req.Header.Set("X-Api-Key", "secret-of-ann")
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			all, released := "", false
			for b := make([]byte, 4096); ; {
				n, err := res.Body.Read(b)
				all += string(b[:n])
				if strings.Contains(all, ": waiting for an approval\n\n") && !released {
					close(pinged)
					released = true
				}
				if err != nil {
					break
				}
			}
			require.Equal(t, c.asked, asked)
			require.Equal(t, c.asked, released)
			all = strings.ReplaceAll(all, ": waiting for an approval\n\n", "")
			require.True(t, strings.HasPrefix(all, streamed), all)
			require.Contains(t, all, c.want)
			line := book.requests(t, 1)[0]
			if c.asked {
				require.Equal(t, approver.Question{Run: line["run"].(string), Route: "test", Model: "m-1", Key: "ann",
					Call: approver.Call{ID: "c1", Name: "rm", Arguments: `{"file":"a"}`},
					Asks: []approver.Ask{{Entry: "m1", Reason: "sure?"}}, ExpiresMS: got.ExpiresMS}, got)
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// TestApproverOfAnswer checks that the approver decides on a call in an answer that is not streamed, and that the
// wait for its decision ends when the client disconnects.
func TestApproverOfAnswer(t *testing.T) {
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
		<-r.Context().Done()
		close(ended)
	}))
	defer s.Close()
	a, err := approver.New(approver.Options{URL: s.URL, Timeout: 30 * time.Millisecond})
	require.NoError(t, err)
	defer a.Close()
	u := newUpstream(t, answers(strings.Replace(whole, `"content":"Hello world"`,
		`"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"rm","arguments":"{}"}}]`, 1)))
	g := newGateway(t, u, func(o *Options) { o.Approver = a }, gate(abi.DecideAsk, "sure?"))
	status, got, _ := g.ask(t, strings.Replace(question, "true", "false", 1))
	require.Equal(t, 200, status)
	require.NotContains(t, got, "tool_calls\":[")
	require.Contains(t, got, "did not answer within 30ms")
	<-ended
}

func TestPings(t *testing.T) {
	require.Equal(t, "event: ping\ndata: {\"type\": \"ping\"}\n\n", string(pingOf(endpoint{path: messagesPath})))
	require.True(t, strings.HasPrefix(string(pingOf(endpoint{path: "/v1/responses"})), ":"))
}
