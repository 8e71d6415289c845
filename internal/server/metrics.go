package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// metrics are what Prometheus is told. Labels are routes, statuses, hooks and kinds:
// nothing that a tenant chooses.
type metrics struct {
	registry *prometheus.Registry
	tracer   tracing.Tracer
	requests *prometheus.HistogramVec
}

func newMetrics(s *Server) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agent_runner_http_request_seconds", Help: "Time of requests until they are answered, by route and status.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"route", "status"})}
	var err error
	if m.tracer, err = telemetry.Metrics(m.registry); err != nil {
		return nil, err
	}
	here := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "agent_runner_server_runs", Help: "Runs that go on in this server."},
		func() float64 { return float64(s.runs.Count()) })
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "agent_runner_server_agents", Help: "Agents that are ready to run in this server."},
		func() float64 { return float64(s.fleet.Count()) })
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "agent_runner_events_dropped_total", Help: "Events that modules emitted or logged and that were not persisted, since their run was stopped."},
		func() float64 { return float64(s.dropped.Load()) })
	for _, c := range append(s.overloadMetrics(), m.requests, here, ready, dropped, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) Routes(rt *httpapi.Router) {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	rt.Raw(httpapi.Route{ID: "metrics", Method: "GET", Path: "/metrics", Scope: httpapi.OperatorScope, Tag: "server", Summary: "Get metrics in Prometheus format",
		About: "Configure Prometheus with an operator key as bearer token. The scope operator is enough."},
		func(op *huma.Operation, _ huma.Registry) {
			op.Responses["200"] = &huma.Response{Description: "Metrics in Prometheus text format", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}}}
		},
		func(w http.ResponseWriter, r *http.Request, _ *httpapi.Caller) error {
			h.ServeHTTP(w, r)
			return nil
		})
}

// note counts a request. Those to no route are counted together.
func (m *metrics) note(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "none"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status/100)+"xx").Observe(took.Seconds())
}
