package server

import (
	"context"
	"math"
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

// journalTimeout bounds reading the size of the journals for one scrape.
const journalTimeout = 5 * time.Second

// metrics holds the metrics of a server for Prometheus. Labels are routes, statuses, hooks and
// kinds, and never values that a tenant chooses.
type metrics struct {
	registry *prometheus.Registry
	tracer   tracing.Tracer
	requests *prometheus.HistogramVec
}

func newMetrics(s *Server) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agent_runner_http_request_seconds", Help: "Time from a request to its response, by route and status.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"route", "status"})}
	var err error
	if m.tracer, err = telemetry.Metrics(m.registry); err != nil {
		return nil, err
	}
	active := prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "agent_runner_server_runs", Help: "Active runs of this server."},
		func() float64 { return float64(s.runs.Count()) },
	)
	pooled := prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "agent_runner_server_agents", Help: "Agents in the pool of this server."},
		func() float64 { return float64(s.pool.Len()) },
	)
	journal := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_runner_journal_bytes",
		Help: "Bytes in the journals of all tenants' runs, in the database of this server. NaN if it cannot be read.",
	}, s.journalBytes)
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "agent_runner_events_dropped_total",
		Help: "Events of modules that were not persisted because their run was stopped.",
	}, func() float64 { return float64(s.dropped.Load()) })
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	all := append(s.overloadMetrics(), m.requests, active, pooled, journal, dropped, collectors.NewGoCollector(), process)
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Routes registers the endpoint that returns the metrics.
func (m *metrics) Routes(rt *httpapi.Router) {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	rt.Raw(httpapi.Route{
		ID:      "metrics",
		Method:  "GET",
		Path:    "/metrics",
		Scope:   httpapi.OperatorRead,
		Tag:     "server",
		Summary: "Get metrics in Prometheus format",
		About:   "Configure Prometheus with an operator key as bearer token. The scope operator:read is enough.",
	}, func(op *huma.Operation, _ huma.Registry) {
		op.Responses["200"] = &huma.Response{
			Description: "Metrics in Prometheus text format",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}},
		}
	}, func(w http.ResponseWriter, r *http.Request, _ *httpapi.Caller) error {
		h.ServeHTTP(w, r)
		return nil
	})
}

// journalBytes returns the size of the journals in bytes, or NaN if the store cannot be read.
func (s *Server) journalBytes() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	n, err := s.options.Store.JournalBytes(ctx)
	if err != nil {
		s.log.Warn("the size of the journals cannot be read", "error", err)
		return math.NaN()
	}
	return float64(n)
}

// note records the duration of a request by its route and class of status, such as "2xx". Requests
// to unknown paths have the route "none".
func (m *metrics) note(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "none"
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(status/100)+"xx").Observe(took.Seconds())
}
