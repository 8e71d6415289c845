package hook

import (
	"maps"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// CountCall adds a call of hook h to s, with its duration and whether it faulted.
func CountCall(s *abi.EntryStats, h abi.Hook, wall time.Duration, faulted bool) {
	s.Calls++
	s.Hooks[h]++
	s.WallUS += wall.Microseconds()
	if faulted {
		s.Faults++
	}
}

// CloneStats returns a copy of s that does not share memory with it.
func CloneStats(s *abi.EntryStats) abi.EntryStats {
	c := *s
	c.Hooks = maps.Clone(s.Hooks)
	return c
}
