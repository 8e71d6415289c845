package tenants_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

func TestAuditLog(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var k api.Key
	made := f.OK("POST", "/v1/keys", f.Acme, api.CreateKey{Name: "ci", Role: "viewer"}, &k)
	f.OK("PUT", "/v1/secrets/openai", f.Acme, map[string]string{"value": "hush"}, nil)
	f.OK("DELETE", "/v1/tenants/acme/keys/"+k.ID, f.Operator, nil, nil)
	f.Send("DELETE", "/v1/keys/aaaaaaaaaa", f.Acme, nil).Problem(t, 404)

	var list struct{ Records []api.AuditRecord }
	body := f.OK("GET", "/v1/audit?limit=3", f.Acme, nil, &list).Body
	require.NotContains(t, string(body), "hush")
	require.NotContains(t, string(body), k.Secret)
	require.Equal(t, []string{"operator", "key.revoke"}, []string{list.Records[0].Actor, list.Records[0].Action})
	require.Empty(t, list.Records[0].Address)
	first := list.Records[2]
	require.Equal(t, "key:"+servertest.KeyID(f.Acme), first.Actor)
	require.Equal(t, []string{"key.create", k.ID, "127.0.0.1"}, []string{first.Action, first.Target, first.Address})
	require.Equal(t, made.Header.Get("X-Request-Id"), first.Request)
	require.JSONEq(t, `{"after":{"name":"ci","role":"viewer"}}`, string(first.Detail))

	list.Records = nil
	f.OK("GET", "/v1/audit?action=key.create&target="+k.ID, f.Acme, nil, &list)
	require.Len(t, list.Records, 1)
	f.OK("GET", "/v1/audit?target="+k.ID, f.Beta, nil, &list)
	require.Empty(t, list.Records)
	f.OK("GET", "/v1/audit?action=key.revoke", f.Operator, nil, &list)
	require.Equal(t, "acme/"+k.ID, list.Records[0].Target)
	require.Equal(t, "key:"+servertest.KeyID(f.Operator), list.Records[0].Actor)
	support := f.RoleKey(store.Operator, httpapi.RoleSupport)
	list.Records = nil
	f.OK("GET", "/v1/tenants/acme/audit?actor=operator&action=key.revoke", support, nil, &list)
	require.Len(t, list.Records, 1)
	require.Empty(t, list.Records[0].ActorName)
	require.Empty(t, list.Records[0].Address)
	f.Send("GET", "/v1/tenants/none/audit", f.Operator, nil).Problem(t, 404)
	f.Send("GET", "/v1/audit", f.RoleKey("acme", httpapi.RoleDeveloper), nil).Problem(t, 403)
}

func TestAuditExport(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	ctx := t.Context()
	for i := range 1010 {
		require.NoError(t, f.Store.Tenant("acme").Audit(ctx, "test", fmt.Sprint(i), nil))
	}
	r := f.OK("GET", "/v1/audit/export?action=test", f.Acme, nil, nil)
	require.Equal(t, "application/x-ndjson", r.Header.Get("Content-Type"))
	lines := strings.Split(strings.TrimSpace(string(r.Body)), "\n")
	require.Len(t, lines, 1010)
	for i, line := range lines {
		var record api.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		require.Equal(t, fmt.Sprint(1009-i), record.Target)
	}
	f.Send("GET", "/v1/audit/export?from=yesterday", f.Acme, nil).Problem(t, 400)
	require.Empty(t, f.OK("GET", "/v1/audit/export?action=test", f.Beta, nil, nil).Body)
}
