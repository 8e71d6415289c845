package routes

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
)

// TestRequestsAreShared checks the limit of a tenant, and that a full server still serves other tenants.
func TestRequestsAreShared(t *testing.T) {
	t.Parallel()
	a, none := newRequests(), func(error) {}
	fill := func(tenant string) (n int) {
		for {
			_, err := a.enter(tenant, maxRequests, none)
			if full := (*admission.QuotaError)(nil); err != nil {
				require.ErrorAs(t, err, &full)
				require.Positive(t, full.RetryAfter)
				return n
			}
			n++
		}
	}
	hogs := maxServerRequests / maxRequests
	for i := range hogs {
		require.Equal(t, maxRequests, fill(fmt.Sprint("hog", i)))
	}
	require.Equal(t, maxServerRequests/(hogs+1), fill("other"), "its share, although the server is full")
	for q := range a.active {
		a.leave(q)
	}
	require.Empty(t, a.tenants)
}

// TestBlockedRequests checks that a block cancels the requests that have the module, and that the reason
// does not name modules of the operator.
func TestBlockedRequests(t *testing.T) {
	t.Parallel()
	a := newRequests()
	begin := func(pins ...journal.Pin) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		q, err := a.enter("acme", 10, cancel)
		require.NoError(t, err)
		a.pin(q, pins)
		return ctx
	}
	own := begin(journal.Pin{Entry: "a", Ring: "tenant", Digest: "bad"})
	ring := begin(journal.Pin{Entry: "operator.a", Ring: "outer", Digest: "bad"})
	other, building := begin(journal.Pin{Entry: "a", Ring: "tenant", Digest: "good"}), begin()
	a.stopBlocked(map[string]string{"bad": "it leaks"}, nil)
	var why *agent.BlockedError
	require.ErrorAs(t, context.Cause(own), &why)
	require.Equal(t, "it leaks", why.Reason)
	require.ErrorAs(t, context.Cause(ring), &why)
	require.Empty(t, why.Digest)
	require.NoError(t, other.Err())
	require.NoError(t, building.Err())
	a.stop("beta", errTenantDeleted)
	require.NoError(t, other.Err())
	a.stop("acme", errTenantDeleted)
	require.ErrorIs(t, context.Cause(other), errTenantDeleted)
}
