package routes

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/store"
)

// usagePrefix and the name of a route are the agent's name in the usage of the route. Names of
// agents contain no colon.
const usagePrefix = "gateway:"

// maxTokens limits the number of tokens that one request adds to the usage, because upstreams
// report the number.
const maxTokens = 100_000_000

// ended adds a request that has ended to the tenant's usage, and logs it without its content.
func (s *Service) ended(tenant string, rt *route, e *gateway.End) {
	input, output := tokens(e.Tokens.Total()-e.Tokens.Output), tokens(e.Tokens.Output)
	s.usage.add(tenant, append(rt.modules(e.Entries), store.Usage{Agent: usagePrefix + rt.name, Runs: 1, Calls: 1,
		WallMS: e.Took.Milliseconds(), PromptTokens: input, CompletionTokens: output}))
	s.o.Logger.Info("request through a route", "tenant", tenant, "route", rt.name, "run", e.Run, "outcome", e.Outcome,
		"took", e.Took, "input", input, "output", output, "denied", e.Denied)
}

// observe logs e if it reports a fault of a module, without the fault's text.
func (s *Service) observe(tenant string, rt *route, e abi.Event) {
	if e.Type == abi.EventFault {
		s.o.Logger.Info("module failed", "tenant", tenant, "route", rt.name, "run", e.Run, "entry", e.Entry, "hook", e.Hook)
	}
}

func tokens(n int64) int64 { return min(max(n, 0), maxTokens) }

// modules returns the usage of the tenant's own modules in a route, given the statistics of one
// request.
func (r *route) modules(stats []abi.EntryStats) (rows []store.Usage) {
	for _, e := range stats {
		own := slices.ContainsFunc(r.pins, func(p journal.Pin) bool {
			return p.Entry == e.Entry && p.Ring == hook.Tenant.String() && p.Digest != ""
		})
		if own && (e.Calls > 0 || e.Fuel > 0) {
			rows = append(rows, store.Usage{Agent: usagePrefix + r.name, Module: e.Digest, Fuel: e.Fuel, Calls: e.Calls,
				WallMS: e.WallUS / 1000})
		}
	}
	return rows
}
