package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

func TestAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var k api.Key
	made := f.ok("POST", "/v1/keys", f.acme, api.CreateKey{Name: "ci", Role: "viewer"}, &k)
	f.ok("PUT", "/v1/secrets/openai", f.acme, map[string]string{"value": "hush"}, nil)
	f.ok("DELETE", "/v1/tenants/acme/keys/"+k.ID, f.operator, nil, nil)
	f.send("DELETE", "/v1/keys/aaaaaaaaaa", f.acme, nil).problem(t, 404)

	var list struct{ Records []api.AuditRecord }
	body := f.ok("GET", "/v1/audit?limit=3", f.acme, nil, &list).body
	require.NotContains(t, string(body), "hush")
	require.NotContains(t, string(body), k.Secret)
	require.Equal(t, []string{"operator", "key.revoke"}, []string{list.Records[0].Actor, list.Records[0].Action})
	require.Empty(t, list.Records[0].Address)
	first := list.Records[2]
	require.Equal(t, "key:"+keyID(f.acme), first.Actor)
	require.Equal(t, []string{"key.create", k.ID, "127.0.0.1"}, []string{first.Action, first.Target, first.Address})
	require.Equal(t, made.header.Get("X-Request-Id"), first.Request)
	require.JSONEq(t, `{"after":{"name":"ci","role":"viewer"}}`, string(first.Detail))

	list.Records = nil
	f.ok("GET", "/v1/audit?action=key.create&target="+k.ID, f.acme, nil, &list)
	require.Len(t, list.Records, 1)
	f.ok("GET", "/v1/audit?target="+k.ID, f.beta, nil, &list)
	require.Empty(t, list.Records)
	f.ok("GET", "/v1/audit?action=key.revoke", f.operator, nil, &list)
	require.Equal(t, "acme/"+k.ID, list.Records[0].Target)
	require.Equal(t, "key:"+keyID(f.operator), list.Records[0].Actor)
	support := f.roleKey(store.Operator, httpapi.RoleSupport)
	list.Records = nil
	f.ok("GET", "/v1/tenants/acme/audit?actor=operator&action=key.revoke", support, nil, &list)
	require.Len(t, list.Records, 1)
	require.Empty(t, list.Records[0].ActorName)
	require.Empty(t, list.Records[0].Address)
	f.send("GET", "/v1/tenants/none/audit", f.operator, nil).problem(t, 404)
	f.send("GET", "/v1/audit", f.roleKey("acme", httpapi.RoleDeveloper), nil).problem(t, 403)
}

func TestAuditExport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	for i := range 1010 {
		require.NoError(t, f.store.Tenant("acme").Audit(ctx, "test", fmt.Sprint(i), nil))
	}
	r := f.ok("GET", "/v1/audit/export?action=test", f.acme, nil, nil)
	require.Equal(t, "application/x-ndjson", r.header.Get("Content-Type"))
	lines := strings.Split(strings.TrimSpace(string(r.body)), "\n")
	require.Len(t, lines, 1010)
	for i, line := range lines {
		var record api.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		require.Equal(t, fmt.Sprint(1009-i), record.Target)
	}
	f.send("GET", "/v1/audit/export?from=yesterday", f.acme, nil).problem(t, 400)
	require.Empty(t, f.ok("GET", "/v1/audit/export?action=test", f.beta, nil, nil).body)
}
