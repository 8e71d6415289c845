package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-runner/agent-runner/internal/overload"
)

// overloadMetrics returns metrics of the overload manager's state.
func (s *Server) overloadMetrics() []prometheus.Collector {
	gauge := func(name, help string, value func(overload.State) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(s.overload.State()) })
	}
	counter := func(name, help string, value func(overload.State) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(s.overload.State())) })
	}
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []prometheus.Collector{
		gauge("agent_runner_memory_pressure", "Part of the memory limit that is used, 0 to 1.",
			func(o overload.State) float64 { return o.Pressure }),
		gauge("agent_runner_memory_limit_bytes", "The memory limit that is used most.",
			func(o overload.State) float64 { return float64(o.Limit) }),
		gauge("agent_runner_overload_rejecting", "1 while new runs are rejected.",
			func(o overload.State) float64 { return is(o.Rejecting) }),
		gauge("agent_runner_overload_evicting", "1 while runs are ended.",
			func(o overload.State) float64 { return is(o.Evicting) }),
		counter("agent_runner_overload_rejected_total", "Requests for runs that were rejected for want of memory.",
			func(o overload.State) int64 { return o.Rejected }),
		counter("agent_runner_overload_evicted_total", "Runs that were ended for want of memory.",
			func(o overload.State) int64 { return o.Evicted }),
	}
}
