package server

import (
	"log/slog"
	"sync"

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

// evict cancels the largest run that it has not canceled yet. It reports whether it canceled one.
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
