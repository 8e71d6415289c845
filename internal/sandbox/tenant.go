package sandbox

import (
	"context"
	"runtime"
)

// A Tenant is one of several users of a sandbox that must not starve each other. Without
// tenants, requests are served in their order.
type Tenant struct {
	// Name identifies the tenant. A tenant with a name has a share of the memory that
	// [Sandbox.Reserve] grants, and of Options.ImageBytes: once it holds some, it can take more
	// only if it then holds no more than is still free for all others.
	Name string
	// AcquireCPU waits until a guest of the tenant can use a processor, and returns a function that
	// releases it. It is called from time to time during a long call, but not for a guest that an
	// import of another guest calls. If AcquireCPU is nil, only Go's scheduler decides.
	AcquireCPU func(ctx context.Context) (release func(), err error)
}

type tenantKey struct{}

// WithTenant returns a context for the work of a tenant.
func WithTenant(ctx context.Context, t *Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}

// noTenant is the tenant of work without one.
var noTenant Tenant

// tenantOf returns the tenant of ctx. It is never nil.
func tenantOf(ctx context.Context) *Tenant {
	if t, _ := ctx.Value(tenantKey{}).(*Tenant); t != nil {
		return t
	}
	return &noTenant
}

// yield lets others use the processor for a moment.
func (in *Instance) yield() {
	if in.tenant.AcquireCPU == nil || in.depth > 0 {
		runtime.Gosched()
		return
	}
	in.releaseCPU()
	release, err := in.tenant.AcquireCPU(in.hostCtx)
	if err != nil {
		return // the call has to end, which the next check of the limits notices
	}
	in.cpuRelease = release
}

// releaseCPU releases the processor that yield acquired, if any: the guest waits, or is done.
func (in *Instance) releaseCPU() {
	if in.cpuRelease != nil {
		in.cpuRelease()
		in.cpuRelease = nil
	}
}
