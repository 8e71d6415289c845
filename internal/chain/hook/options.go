package hook

import "github.com/agent-runner/agent-runner/internal/chain/tracing"

// Options configure a chain. The zero value is valid.
type Options struct {
	// ContinueOnError continues a pipeline after a hook that failed. The first error is reported at
	// the end of the pipeline.
	ContinueOnError bool
	// ContinueOnResponse continues a pipeline of before hooks after a hook that answered. The last
	// answer counts, unless a hook failed.
	ContinueOnResponse bool
	// Values stores the entries' durable values, in the scope of Tenant. If nil, durable values are
	// unavailable.
	Values Values
	Tenant string
	// HTTP sends the middlewares' HTTP requests. If nil, requests fail.
	HTTP HTTP
	// Tracer, if not nil, receives the operations of the run.
	Tracer tracing.Tracer
}
