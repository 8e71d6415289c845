package server

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/overload"
)

// An evictor ends the runs of this process that hold the most memory.
type evictor struct {
	log     *slog.Logger
	process *account.Account // the account of the process

	mu       sync.Mutex
	canceled map[*account.Account]bool // runs that were canceled and have not ended
}

func newEvictor(log *slog.Logger) *evictor {
	return &evictor{log: log, process: account.Process(), canceled: map[*account.Account]bool{}}
}

// evict cancels the largest run that is not canceled yet. It reports whether there was one.
func (e *evictor) evict(s overload.State) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := e.process.Evictables()
	ending := make(map[*account.Account]bool, len(e.canceled))
	for _, r := range runs {
		ending[r] = e.canceled[r]
	}
	e.canceled = ending
	for _, r := range runs {
		if ending[r] {
			continue
		}
		why := &agent.OverloadedError{Held: r.Used(), Used: s.Used, Limit: s.Limit}
		if ending[r] = true; r.Cancel(why) {
			e.log.Warn("run ended: out of memory", "run", r.Name(), "held", why.Held, "used", why.Used, "limit", why.Limit)
			return true
		}
	}
	return false
}

// newOverload returns the manager of this process's memory.
func newOverload(s *Server) *overload.Manager {
	return overload.New(overload.Options{
		Memory:  s.options.Memory,
		TuneGC:  s.options.TuneGC,
		Logger:  s.log,
		Evict:   newEvictor(s.log).evict,
		Release: s.releaseIdle,
	})
}

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
