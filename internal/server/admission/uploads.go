package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/fairshare"
)

// Limits on uploads and agents. A received upload is in a file, and uses memory only while it is
// compiled.
const (
	MaxUploads      = 4 // concurrent uploads of a tenant
	maxCompiles     = 2
	maxQueuedChecks = 16 // per tenant

	// While other tenants are active, a tenant that checks modules and agents continuously may
	// compile for a quarter of the time once its burst is used up.
	checkShare = 0.25
	checkBurst = 5 * time.Second
	// maxCheckDelay caps one delay. It suffices for compilations of up to 20 s.
	maxCheckDelay = time.Minute

	// Builds need many slots, because a build may wait for MCP servers.
	maxBuilds          = 64
	maxBuildsPerTenant = 2
	maxQueuedBuilds    = 256 // per tenant

	// A load holds the bytes of a module in memory. The option MaxUpload of package modules limits
	// their number.
	maxLoadsPerTenant = 8
)

// Upload admits an upload. It fails at once with a [*QuotaError] if the tenant has MaxUploads
// in progress. done ends the upload.
func (c *Controller) Upload(ctx context.Context, tenant string) (done func(), err error) {
	release, err := c.uploads.Acquire(ctx, tenant)
	if full := (*fairshare.QueueFullError)(nil); errors.As(err, &full) {
		return nil, &QuotaError{
			"uploads",
			queueRetry,
			fmt.Sprintf("%d uploads of this tenant are in progress; wait until one of them has ended", MaxUploads),
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { release(0) }, nil
}

// Check waits until a module or an agent of a tenant may be checked. done ends the check. It delays the
// tenant's next check if other tenants are active and the tenant's compilations took too much time.
func (c *Controller) Check(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.checks, tenant, "compiles")
	if err != nil {
		return nil, err
	}
	return func() { release(charge(c.checkTime, tenant, 0, c.InFlight.Others)) }, nil
}

// Compile waits until a module of a tenant may be compiled and checked. done ends this work, whose
// time is charged to the tenant's budget for checks. The wait is not charged, because other tenants
// cause it.
func (c *Controller) Compile(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.compiles, tenant, "compiles")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() {
		c.checkTime.Charge(tenant, time.Since(began))
		release(0)
	}, nil
}

// Load waits until a stored module may be loaded for a tenant. done ends the load. A load can
// outlast the request that started it.
func (c *Controller) Load(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.loads, tenant, "modules that are loaded")
	if err != nil {
		return nil, err
	}
	return func() { release(0) }, nil
}

// Build waits until an agent of a tenant may be built. done ends the build.
func (c *Controller) Build(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.builds, tenant, "agents that are built")
	if err != nil {
		return nil, err
	}
	return func() { release(0) }, nil
}
