package sandbox

import (
	"context"
	"runtime"
)

// A Tenant is one of several users of a sandbox that must not starve each other. Without
// tenants, requests are served in their order.
type Tenant struct {
	// Name identifies the tenant. A tenant with a name holds at most half of the memory that [Sandbox.Reserve]
	// grants, and at most half of Options.ImageBytes. If the tenant already holds memory, it can take more only if at
	// least as much as it then holds stays free. A tenant without a name is not limited.
	Name string
	// AcquireCPU waits until a guest of the tenant can use a processor, and returns a function that
	// releases it. It is called from time to time during a long call, but not for a guest that an
	// import of another guest calls. If AcquireCPU is nil, guests wait for one of the processors in
	// the order of their arrival.
	AcquireCPU func(ctx context.Context) (release func(), err error)
}

type tenantKey struct{}

// WithTenant returns a context for the work of a tenant.
func WithTenant(ctx context.Context, t *Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}

// noTenant is the tenant of work without one.
var noTenant Tenant

// processors has a slot for each processor. Without this limit, many long-running guests would share the processors,
// and each of them would exceed its time limit while others run.
var processors = make(chan struct{}, runtime.GOMAXPROCS(0))

func acquireProcessor(ctx context.Context) (release func(), err error) {
	select {
	case processors <- struct{}{}:
		return releaseProcessor, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func releaseProcessor() { <-processors }

// tenantOf returns the tenant of ctx. It is never nil.
func tenantOf(ctx context.Context) *Tenant {
	if t, _ := ctx.Value(tenantKey{}).(*Tenant); t != nil {
		return t
	}
	return &noTenant
}

// yield lets other goroutines run, and waits until the guest can use a processor again.
func (in *Instance) yield() {
	if in.depth > 0 {
		runtime.Gosched()
		return
	}
	acquire := in.tenant.AcquireCPU
	if acquire == nil {
		acquire = acquireProcessor
	}
	in.releaseCPU()
	runtime.Gosched() // the next guest would otherwise run before goroutines that wait for a processor
	release, err := acquire(in.hostCtx)
	if err != nil {
		return // the call has to end, which the next check of the limits notices
	}
	in.cpuRelease = release
}

// releaseCPU releases the processor that yield acquired, when the guest waits or has ended. It has no effect if yield
// acquired none.
func (in *Instance) releaseCPU() {
	if in.cpuRelease != nil {
		in.cpuRelease()
		in.cpuRelease = nil
	}
}
