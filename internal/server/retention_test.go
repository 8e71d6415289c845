package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestRetention checks that only owners and the operator can set how long threads are stored, and
// that the audit log has the changes.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var kept api.Retention
	f.ok("GET", "/v1/retention", f.acme, nil, &kept)
	require.Zero(t, kept.ThreadDays)
	f.ok("PUT", "/v1/retention", f.key("acme", httpapi.RoleOwner.Scopes("acme")...), api.Retention{ThreadDays: 30}, &kept)
	require.EqualValues(t, 30, kept.ThreadDays)
	f.send("PUT", "/v1/retention", f.key("acme", httpapi.RoleDeveloper.Scopes("acme")...), api.Retention{}).problem(t, 403)
	f.send("PUT", "/v1/tenants/acme/retention", f.acme, api.Retention{}).problem(t, 403)
	for _, days := range []int64{-1, 36_501} {
		f.send("PUT", "/v1/retention", f.acme, api.Retention{ThreadDays: days}).problem(t, 422)
	}
	f.ok("PUT", "/v1/tenants/acme/retention", f.operator, api.Retention{ThreadDays: 1}, &kept)
	f.ok("GET", "/v1/tenants/acme/retention", f.operator, nil, &kept)
	require.EqualValues(t, 1, kept.ThreadDays)
	f.ok("GET", "/v1/retention", f.beta, nil, &kept)
	require.Zero(t, kept.ThreadDays)
	var log struct{ Records []api.AuditRecord }
	require.Eventually(t, func() bool {
		f.ok("GET", "/v1/audit?action=retention.set", f.acme, nil, &log)
		return len(log.Records) == 2
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, store.ActorOperator, log.Records[0].Actor)
	h := f.thread(f.acme, api.CreateThread{})
	_, err := f.store.ExpireThreads(t.Context())
	require.NoError(t, err)
	f.ok("GET", "/v1/threads/"+h.ID, f.acme, nil, nil)
}
