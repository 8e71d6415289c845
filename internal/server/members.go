package server

import (
	"context"
	"os"

	"github.com/agent-runner/agent-runner/internal/server/cluster"
)

// newMembers returns the servers that share the store, which it learns from heartbeats on the bus of
// hints.
func (s *Server) newMembers() *cluster.Members {
	node, _ := os.Hostname()
	return cluster.New(&cluster.Options{
		Bus:    s.options.Hints,
		Logger: s.log,
		Now:    s.options.Now,
		End:    s.options.Store.EndSilent,
		Claim:  func(context.Context) { s.runs.Waiting() },
		Self: func() cluster.Member {
			m := cluster.Member{
				Owner:   s.options.Owner,
				Node:    node,
				Version: s.options.Version,
				Runs:    s.runs.Count(),
			}
			select {
			case <-s.draining:
				m.Draining = true
			default:
			}
			return m
		},
	})
}
