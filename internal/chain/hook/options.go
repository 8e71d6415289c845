package hook

import "github.com/agent-runner/agent-runner/internal/chain/tracing"

// Options are for the pipelines of before_* and after_* hooks.
type Options struct {
	// ContinueOnError lets the rest of a pipeline run after a hook that
	// failed; the first error is reported at the end.
	ContinueOnError bool
	// ContinueOnResponse lets the rest of a before pipeline run after a hook
	// that answered; the last answer counts, and an error beats it.
	ContinueOnResponse bool
	// Values keep the durable values of entries, for Tenant; nil: there are none.
	Values Values
	Tenant string
	// HTTP sends requests of middlewares; nil: none are sent.
	HTTP HTTP
	// Tracer is told of hooks, and by the agent of the rest; nil: nobody is.
	Tracer tracing.Tracer
}
