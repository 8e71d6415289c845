package hook

import "github.com/agent-runner/agent-runner/internal/chain/tracing"

// Options configure a chain. The zero value is valid.
type Options struct {
	// ContinueOnError runs the rest of a pipeline after a hook that failed. The first
	// error is reported at the end.
	ContinueOnError bool
	// ContinueOnResponse runs the rest of a before pipeline after a hook that answered.
	// The last answer counts; an error takes precedence.
	ContinueOnResponse bool
	// Values stores the durable values of the entries of Tenant. If nil, they are unavailable.
	Values Values
	Tenant string
	// HTTP sends requests of middlewares. If nil, they fail.
	HTTP HTTP
	// Tracer, if not nil, receives the operations of the run.
	Tracer tracing.Tracer
}
