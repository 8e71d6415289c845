package tenants_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestRetention checks that only owners and the operator can set how long threads are stored, and
// that the audit log has the changes.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var kept api.Retention
	f.OK("GET", "/v1/retention", f.Acme, nil, &kept)
	require.Zero(t, kept.ThreadDays)
	f.OK("PUT", "/v1/retention", f.Key("acme", httpapi.RoleOwner.Scopes("acme")...), api.Retention{ThreadDays: 30}, &kept)
	require.EqualValues(t, 30, kept.ThreadDays)
	f.Send("PUT", "/v1/retention", f.Key("acme", httpapi.RoleDeveloper.Scopes("acme")...), api.Retention{}).Problem(t, 403)
	f.Send("PUT", "/v1/tenants/acme/retention", f.Acme, api.Retention{}).Problem(t, 403)
	for _, days := range []int64{-1, 36_501} {
		f.Send("PUT", "/v1/retention", f.Acme, api.Retention{ThreadDays: days}).Problem(t, 422)
	}
	f.OK("PUT", "/v1/tenants/acme/retention", f.Operator, api.Retention{ThreadDays: 1}, &kept)
	f.OK("GET", "/v1/tenants/acme/retention", f.Operator, nil, &kept)
	require.EqualValues(t, 1, kept.ThreadDays)
	f.OK("GET", "/v1/retention", f.Beta, nil, &kept)
	require.Zero(t, kept.ThreadDays)
	var log struct{ Records []api.AuditRecord }
	require.Eventually(t, func() bool {
		f.OK("GET", "/v1/audit?action=retention.set", f.Acme, nil, &log)
		return len(log.Records) == 2
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, store.ActorOperator, log.Records[0].Actor)
	h := f.CreateThread(f.Acme, api.CreateThread{})
	_, err := f.Store.ExpireThreads(t.Context())
	require.NoError(t, err)
	f.OK("GET", "/v1/threads/"+h.ID, f.Acme, nil, nil)
}
