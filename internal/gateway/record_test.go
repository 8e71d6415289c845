package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
)

// A logbook collects the lines that a gateway logs about requests.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// requests returns the first n requests that were logged.
func (l *logbook) requests(t *testing.T, n int) []map[string]any {
	var out []map[string]any
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		out = nil
		for line := range strings.Lines(l.b.String()) {
			var m map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &m))
			if m["msg"] == "request" {
				out = append(out, m)
			}
		}
		return len(out) >= n
	}, 5*time.Second, time.Millisecond)
	return out
}

// observed returns a log, a registry of metrics, and a function that makes a gateway use both. The
// function also sets prices, the key "ann" with the given limits, and the key "bob" without limits.
func observed(t *testing.T, limits budget.Limits) (*logbook, *prometheus.Registry, func(*Options)) {
	book, r := &logbook{}, prometheus.NewRegistry()
	held := account.New(account.LevelProcess, "gateway", nil, 0)
	m, err := NewMetrics(r, held)
	require.NoError(t, err)
	prices, err := price.Parse([]byte("prices: [{model: m-1, input: 1, output: 10, cached_input: 0.1}]"))
	require.NoError(t, err)
	ledger, err := budget.Open("", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return book, r, func(o *Options) {
		o.Logger, o.Metrics, o.Memory = slog.New(slog.NewJSONHandler(book, nil)), m, held
		o.Prices, o.Ledger = prices, ledger
		o.Keys = []Key{{Name: "ann", Secret: "secret-of-ann", Limits: limits}, {Name: "bob", Secret: "secret-of-bob"}}
		o.Routes[0].Models = []string{"m-*"}
	}
}

// counts returns the values of the counters and gauges of a registry, and the number of values of its
// histograms.
func counts(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	families, err := r.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "agent_runner_gateway_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

const (
	usageEvent = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[],` +
		`"usage":{"prompt_tokens":1000000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":500000}}}` + "\n\n"
	withUsage = "data: [DONE]\n\n"
)

func TestUsage(t *testing.T) {
	question := strings.Replace(question, "true", `true,"max_tokens":5`, 1)
	stream := strings.Replace(streamed+endStop, withUsage, usageEvent+withUsage, 1)
	for name, mws := range map[string][]*native.Middleware{
		"no modules": nil, "modules": {reader(), gate(abi.DecideAllow, "")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				question, answer string
				want             map[string]any
			}{
				{question, stream, map[string]any{"input": 5e5, "cache_read": 5e5, "output": 10., "cost": "0.5501"}},
				{strings.Replace(question, "true", "false", 1), whole, map[string]any{"input": 3., "output": 2., "cost": "0.0000"}},
				{question, streamed + endStop, map[string]any{
					"input": float64(tokensOf(len(question))), "output": 5., "estimated": true,
				}},
			} {
				u := newUpstream(t, answers(c.answer))
				book, r, options := observed(t, budget.Limits{})
				g := newGateway(t, u, options, mws...)
				status, got, _ := g.ask(t, c.question, "X-Api-Key", "secret-of-ann")
				require.Equal(t, 200, status)
				require.Equal(t, c.answer, got)
				line := book.requests(t, 1)[0]
				c.want["outcome"], c.want["route"], c.want["model"], c.want["key"] = "ok", "test", "m-1", "ann"
				c.want["status"], c.want["path"] = 200., "/v1/chat/completions"
				for name, value := range c.want {
					require.Equal(t, value, line[name], "%s of %v", name, line)
				}
				require.LessOrEqual(t, line["added_ms"], line["total_ms"])
				require.NotContains(t, fmt.Sprint(line), "secret")
				all := counts(t, r)
				require.Equal(t, 1., all["requests_total /v1/chat/completions ann ok test"], all)
				require.Equal(t, c.want["output"], all["tokens_total ann output m-* test"], all)
				require.Equal(t, 1., all["added_seconds test"])
				require.Equal(t, 1., all["first_byte_seconds test"])
				require.Equal(t, float64(min(len(mws), 1)), all["module_seconds m1 test"])
				require.Zero(t, all["requests_active"])
				require.Zero(t, all["held_bytes"])
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		mw     *native.Middleware
		body   string
		want   string
	}{
		"an error of the upstream": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, want: "upstream_error"},
		"a redirect":               {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(302) }, want: "upstream_failed"},
		"a cut stream":             {answer: answers(streamed), want: "upstream_failed"},
		"a stop": {answer: answers(whole), want: "denied", mw: &native.Middleware{
			BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "no"}}}, nil
			},
		}},
		"a denied call": {answer: answers(streamed + call + endCalls), mw: gate(abi.DecideDeny, "no"), want: "ok"},
		"no request":    {body: "{", want: "invalid_request"},
		"no route":      {body: `{"model":"n"}`, want: "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, c.answer)
			book, r, options := observed(t, budget.Limits{})
			mw := c.mw
			if mw == nil {
				mw = reader()
			}
			g := newGateway(t, u, options, mw)
			body := c.body
			if body == "" {
				body = question
			}
			g.ask(t, body, "X-Api-Key", "secret-of-bob")
			require.Equal(t, c.want, book.requests(t, 1)[0]["outcome"])
			all := counts(t, r)
			route := "test"
			if c.body != "" {
				route = ""
			}
			require.Equal(t, 1., all["requests_total /v1/chat/completions bob "+c.want+" "+route], all)
			if name == "a denied call" {
				require.Equal(t, 1., all["denials_total m1 test"])
			}
		})
	}
}

// TestWrongKeys checks that requests with wrong keys change nothing but one counter, whatever they contain.
func TestWrongKeys(t *testing.T) {
	u := newUpstream(t, answers(whole))
	book, r, options := observed(t, budget.Limits{RequestsPerMinute: 1})
	g := newGateway(t, u, options)
	for i := range 200 {
		body := strings.Replace(question, "m-1", fmt.Sprint("m-", i), 1)
		status, got, _ := g.ask(t, body, "Authorization", fmt.Sprint("Bearer secret-of-ann", i))
		require.Equal(t, 401, status, got)
	}
	book.requests(t, 200)
	all := counts(t, r)
	require.Equal(t, 200., all["requests_total /v1/chat/completions  authentication "], all)
	require.Less(t, len(all), 20)
	status, _, _ := g.ask(t, question, "X-Api-Key", "secret-of-ann")
	require.Equal(t, 200, status, "guesses do not count as requests of the key")
	require.Len(t, u.requests(), 1)
}

func TestBudgets(t *testing.T) {
	u := newUpstream(t, answers(strings.Replace(whole, `"prompt_tokens":3`, `"prompt_tokens":9223372036854775807`, 1)))
	question := strings.Replace(question, "true", "false", 1)
	for name, c := range map[string]struct {
		limits  budget.Limits
		want    string
		status  int
		retry   string
		outcome string
	}{
		"tokens": {budget.Limits{Tokens: 1e6, Per: budget.Day}, "the key ann has spent its budget of 1000000 tokens a day", 400, "", "budget"},
		"cost":   {budget.Limits{Cost: price.AmountOf(5), Per: budget.Day}, "the key ann has spent its budget of 5 a day", 400, "", "budget"},
		"rate":   {budget.Limits{RequestsPerMinute: 1}, "the key ann has sent 1 requests a minute", 429, "60", "rate"},
	} {
		for _, mws := range [][]*native.Middleware{nil, {reader()}} {
			t.Run(fmt.Sprint(name, ", modules: ", len(mws)), func(t *testing.T) {
				book, r, options := observed(t, c.limits)
				g := newGateway(t, u, options, mws...)
				status, got, _ := g.ask(t, question, "X-Api-Key", "secret-of-ann")
				require.Equal(t, 200, status, got)
				book.requests(t, 1)
				status, got, header := g.ask(t, question, "X-Api-Key", "secret-of-ann")
				require.Equal(t, c.status, status)
				require.Contains(t, got, c.want)
				require.Equal(t, c.retry, header.Get("Retry-After"))
				require.Equal(t, c.outcome, book.requests(t, 2)[1]["outcome"])
				require.Equal(t, 1., counts(t, r)["added_seconds test"], "a rejected request has no latency")
				status, _, _ = g.ask(t, question, "X-Api-Key", "secret-of-bob")
				require.Equal(t, 200, status)
			})
		}
	}
	_, _, options := observed(t, budget.Limits{Cost: 1})
	g := newGateway(t, u, options)
	status, got, _ := g.ask(t, strings.Replace(question, "m-1", "m-2", 1), "X-Api-Key", "secret-of-ann")
	require.Equal(t, 400, status)
	require.Contains(t, got, "no price of the model")
}
