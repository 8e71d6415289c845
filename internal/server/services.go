package server

import (
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/server/quarantine"
	"github.com/agent-runner/agent-runner/internal/server/replays"
	"github.com/agent-runner/agent-runner/internal/server/rollouts"
	"github.com/agent-runner/agent-runner/internal/server/routes"
	"github.com/agent-runner/agent-runner/internal/server/runs"
)

// Services are the parts of a [Server]. Tests of one part use them to set its options, and to run a
// background task at the time that they choose.
type Services struct {
	Timeouts   *httpapi.Timeouts
	Router     *httpapi.Router
	Admission  *admission.Controller
	Overload   *overload.Manager
	Blocks     *blocks.List
	Modules    *modules.Service
	Agents     *agents.Service
	Pool       *agents.Pool
	Runs       *runs.Service
	Routes     *routes.Service
	Replays    *replays.Service
	Rollouts   *rollouts.Service
	Quarantine *quarantine.Service

	// Draining is closed when the server begins to shut down, and Aborted when its drain time is over.
	Draining, Aborted <-chan struct{}
}

// ServicesOf returns the parts of a server. It is not a method, because the public package host/server
// exports the methods of [Server].
func ServicesOf(s *Server) *Services {
	return &Services{
		Timeouts:   s.timeouts,
		Router:     s.router,
		Admission:  s.admission,
		Overload:   s.overload,
		Blocks:     s.blocks,
		Modules:    s.modules,
		Agents:     s.agents,
		Pool:       s.pool,
		Runs:       s.runs,
		Routes:     s.routes,
		Replays:    s.replays,
		Rollouts:   s.rollouts,
		Quarantine: s.quarantine,
		Draining:   s.draining,
		Aborted:    s.aborted,
	}
}
