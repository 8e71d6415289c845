package gateway

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-runner/agent-runner/internal/account"
)

// Metrics are the metrics of gateways for Prometheus. Several gateways can share them. Labels are names
// of the configuration and fixed sets, and never values that clients or models choose. Nil Metrics
// count nothing.
type Metrics struct {
	added, total, firstByte *prometheus.HistogramVec
	module                  *prometheus.HistogramVec
	requests                *prometheus.CounterVec
	denials, faults         *prometheus.CounterVec
	cacheBreaks             *prometheus.CounterVec
	tokens, cost            *prometheus.CounterVec
	active                  prometheus.Gauge

	mu     sync.Mutex
	labels map[string]bool // names that were used as labels
}

// maxLabels limits the names that are used as labels, since changes of the configuration add some.
// Further ones are counted as "other".
const maxLabels = 1000

// NewMetrics registers metrics with r. held is the account of the memory that gateways hold, or nil. NewMetrics
// returns an error if r already has one of the metrics.
func NewMetrics(r prometheus.Registerer, held *account.Account) (*Metrics, error) {
	const ns = "agent_runner_gateway_"
	histogram := func(name, help string, first float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: ns + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2.5, 12)}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: ns + name, Help: help}, labels)
	}
	m := &Metrics{
		labels: map[string]bool{},
		added: histogram("added_seconds", "Time that requests spent in the gateway, without waiting for the upstream, "+
			"the client and approvals.", 0.0001, "route"),
		total:     histogram("request_seconds", "Time from a request to the end of its answer.", 0.01, "route"),
		firstByte: histogram("first_byte_seconds", "Time from a request to the first byte of its answer.", 0.01, "route"),
		module:    histogram("module_seconds", "Time of a request in the hooks of a module.", 0.00001, "route", "module"),
		requests:  counter("requests_total", "Requests by how they ended.", "route", "endpoint", "key", "outcome"),
		denials:   counter("denials_total", "Tool calls that modules denied.", "route", "module"),
		faults:    counter("faults_total", "Hook calls of modules that failed.", "route", "module"),
		cacheBreaks: counter("cache_break_tokens_total", "Tokens, estimated, from the first new change of a module "+
			"to the last prompt-cache breakpoint after it.", "route"),
		tokens: counter("tokens_total", "Tokens by kind: input, cache_read, cache_write, output.",
			"route", "model", "key", "kind"),
		cost:   counter("cost_total", "Cost of tokens, in the currency of the price file.", "route", "model", "key"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{Name: ns + "requests_active", Help: "Requests in progress."}),
	}
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: ns + "held_bytes",
		Help: "Memory that requests in progress hold."}, func() float64 { return float64(held.Used()) })
	for _, c := range []prometheus.Collector{m.added, m.total, m.firstByte, m.module, m.requests, m.denials, m.faults,
		m.cacheBreaks, m.tokens, m.cost, m.active, bytes} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// label returns a name as a label.
func (m *Metrics) label(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.labels[name]:
	case len(m.labels) == maxLabels:
		return "other"
	default:
		m.labels[name] = true
	}
	return name
}

// begin counts a request in progress.
func (m *Metrics) begin() {
	if m != nil {
		m.active.Inc()
	}
}

// end counts a request that has ended.
func (m *Metrics) end(r *record) {
	if m == nil {
		return
	}
	m.active.Dec()
	route, model, key := "", "", m.label(r.key)
	if r.route != nil {
		route, model = m.label(r.route.Name), m.label(r.route.listed(r.model))
	}
	m.requests.WithLabelValues(route, r.endpoint.name(), key, r.outcome).Inc()
	if r.route == nil {
		return
	}
	if r.asked {
		m.added.WithLabelValues(route).Observe(r.added().Seconds())
		m.total.WithLabelValues(route).Observe(time.Since(r.began).Seconds())
	}
	if r.asked && r.client.first > 0 {
		m.firstByte.WithLabelValues(route).Observe(r.client.first.Seconds())
	}
	for i := range r.entries {
		e := &r.entries[i]
		entry := m.label(e.Entry)
		m.module.WithLabelValues(route, entry).Observe(float64(e.WallUS) / 1e6)
		if e.Faults > 0 {
			m.faults.WithLabelValues(route, entry).Add(float64(e.Faults))
		}
	}
	for _, entry := range r.denied {
		m.denials.WithLabelValues(route, m.label(entry)).Inc()
	}
	if r.cacheBreak > 0 {
		m.cacheBreaks.WithLabelValues(route).Add(float64(r.cacheBreak))
	}
	for kind, n := range map[string]int64{"input": r.tokens.Input, "cache_read": r.tokens.CacheRead,
		"cache_write": r.tokens.CacheWrite, "output": r.tokens.Output} {
		if n > 0 {
			m.tokens.WithLabelValues(route, model, key, kind).Add(float64(n))
		}
	}
	if r.cost > 0 {
		m.cost.WithLabelValues(route, model, key).Add(r.cost.Units())
	}
}
