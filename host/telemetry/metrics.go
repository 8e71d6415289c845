package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// Metrics returns a tracer that updates Prometheus metrics, and registers them with r. The labels
// are kinds, hooks and outcomes. Their number is fixed: labels never contain names chosen by
// tenants, models or modules.
func Metrics(r prometheus.Registerer) (tracing.Tracer, error) {
	m := &metrics{
		running: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "agent_runner_runs_running", Help: "Active runs, including those of sub-agents."},
		),
		runs: histogram("agent_runner_run_seconds", "Duration of runs until they end or pause.",
			"outcome", prometheus.ExponentialBuckets(0.005, 4, 10)),
		models: histogram("agent_runner_model_seconds", "Duration of model calls.", "outcome",
			prometheus.ExponentialBuckets(0.005, 3, 10)),
		tools: histogram("agent_runner_tool_seconds", "Duration of tool calls.", "outcome",
			prometheus.ExponentialBuckets(0.001, 4, 10)),
		hooks: histogram("agent_runner_hook_seconds", "Duration of hook calls, without the calls that they wrap.",
			"hook", prometheus.ExponentialBuckets(0.00001, 4, 10)),
		faults: counter("agent_runner_hook_faults_total", "Hook calls that faulted.", "hook"),
		tokens: counter("agent_runner_tokens_total", "Input and output tokens of models.", "kind"),
		fuel:   prometheus.NewCounter(prometheus.CounterOpts{Name: "agent_runner_fuel_total", Help: "Fuel used by modules."}),
	}
	for _, c := range []prometheus.Collector{m.running, m.runs, m.models, m.tools, m.hooks, m.faults, m.tokens, m.fuel} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func histogram(name, help, label string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
}

func counter(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}

type metrics struct {
	running                    prometheus.Gauge
	runs, models, tools, hooks *prometheus.HistogramVec
	faults, tokens             *prometheus.CounterVec
	fuel                       prometheus.Counter
}

// Start implements [tracing.Tracer].
func (m *metrics) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	began := time.Now()
	if op.Kind == tracing.OperationRun {
		m.running.Inc()
	}
	return ctx, func(o tracing.Outcome) {
		took := time.Since(began)
		switch op.Kind {
		case tracing.OperationRun:
			m.running.Dec()
			m.runs.WithLabelValues(runOutcome(o)).Observe(took.Seconds())
		case tracing.OperationModel:
			m.models.WithLabelValues(outcome(o)).Observe(took.Seconds())
			if o.Usage != nil {
				m.tokens.WithLabelValues("input").Add(float64(max(0, o.Usage.PromptTokens)))
				m.tokens.WithLabelValues("output").Add(float64(max(0, o.Usage.CompletionTokens)))
			}
		case tracing.OperationTool:
			m.tools.WithLabelValues(outcome(o)).Observe(took.Seconds())
		case tracing.OperationHook:
			m.hooks.WithLabelValues(string(op.Hook)).Observe((took - o.Waited).Seconds())
			m.fuel.Add(float64(max(0, o.Fuel)))
			if o.Fault {
				m.faults.WithLabelValues(string(op.Hook)).Inc()
			}
		}
	}
}

// runOutcome returns the outcome label of a run: its finish reason, "paused" or "lost".
func runOutcome(o tracing.Outcome) string {
	switch {
	case o.FinishReason != "":
		return o.FinishReason // one of the fixed set of finish reasons
	case o.Err != nil:
		return "lost"
	default:
		return "paused"
	}
}

// outcome returns the outcome label of a call: "ok", "error", or "ended" if the call ended the
// run.
func outcome(o tracing.Outcome) string {
	var failed *abi.Error
	switch {
	case o.IsError, errors.As(o.Err, &failed):
		return "error"
	case o.Err != nil && ending.Is(o.Err):
		return "ended"
	case o.Err != nil:
		return "error"
	default:
		return "ok"
	}
}
