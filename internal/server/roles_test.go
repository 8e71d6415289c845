package server

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// roleKey creates an API key of a tenant with a role.
func (f *fixture) roleKey(tenant string, role httpapi.Role) string {
	f.t.Helper()
	_, shown, err := f.store.Tenant(tenant).
		CreateKey(f.t.Context(), &store.KeyOptions{Name: string(role), Role: string(role)})
	require.NoError(f.t, err)
	return shown
}

// roleRules holds the operations that each role may call: the operations that require one of the
// scopes, and the operations with one of the ids.
var roleRules = map[httpapi.Role]struct {
	tenant string
	scopes []httpapi.Scope
	also   []string
}{
	httpapi.RoleViewer: {"acme", []httpapi.Scope{"modules:read", "agents:read", "runs:read", "usage:read"}, nil},
	httpapi.RoleApprover: {
		"acme", []httpapi.Scope{"modules:read", "agents:read", "runs:read", "usage:read"}, nil,
	},
	httpapi.RoleDeveloper: {
		"acme",
		[]httpapi.Scope{"modules:read", "agents:read", "runs:read", "usage:read", "modules:write",
			"agents:write", "runs:write", "secrets:write", "tokens:write"},
		nil,
	},
	httpapi.RoleOwner:   {"acme", httpapi.TenantScopes, nil},
	httpapi.RoleSupport: {store.Operator, []httpapi.Scope{"operator:read"}, nil},
	httpapi.RoleAdmin: {
		store.Operator, append([]httpapi.Scope{"operator", "operator:read"}, httpapi.TenantScopes...), nil,
	},
}

// TestRolesAndEveryOperation calls each operation of the document with a key of each role, and
// checks that exactly the operations of the role are allowed.
func TestRolesAndEveryOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	samples := populate(t, f)
	for role, rule := range roleRules {
		t.Run(string(role), func(t *testing.T) {
			key := f.roleKey(rule.tenant, role)
			for _, op := range f.operations() {
				if op.Scope == httpapi.Public || op.Scope == httpapi.SignedIn {
					continue
				}
				if slices.Contains(rule.scopes, op.Scope) || slices.Contains(rule.also, op.ID) {
					if op.Method == http.MethodGet {
						require.NotEqual(t, 403, f.send(op.Method, op.at(t, samples), key, nil).status, op.ID)
					}
					continue
				}
				f.send(op.Method, op.at(t, samples), key, op.sample(t)).problem(t, 403, op.ID)
			}
		})
	}
}

func TestApproverAnswersButStartsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.roleKey("acme", httpapi.RoleApprover)
	start := api.StartRun{Agent: "clerk", Input: "hello"}
	require.Contains(t, f.send("POST", "/v1/runs", key, start).problem(t, 403).Detail, "this needs runs:write")
	resume := map[string]any{"run": "run_x", "answers": map[string]any{"i": map[string]string{"decision": "approve"}}}
	f.send("POST", "/v1/runs", key, resume).problem(t, 404)
	f.send("POST", "/v1/runs", f.roleKey("acme", httpapi.RoleViewer), resume).problem(t, 403)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/agents/clerk/agui"} {
		f.send("POST", path, key, map[string]any{"model": "clerk", "run": "run_x", "answers": map[string]any{}}).
			problem(t, 403, path)
	}
}

func TestKeysWithRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var k api.Key
	f.ok("POST", "/v1/keys", f.acme, api.CreateKey{Name: "a", Role: "approver", ExpiresInSeconds: 60}, &k)
	require.Equal(t, "approver", k.Role)
	require.Equal(t, httpapi.RoleApprover.Scopes("acme"), k.Scopes)
	require.NotNil(t, k.Expires)
	var next api.Key
	f.ok("POST", "/v1/keys/"+k.ID+"/rotate", f.acme, nil, &next)
	require.Equal(t, k.Scopes, next.Scopes)
	require.Equal(t, 200, f.send("GET", "/v1/runs", next.Secret, nil).status)

	for _, in := range []api.CreateKey{
		{Name: "x", Role: "admin"}, {Name: "x", Role: "king"}, {Name: "x", Role: "owner", Scopes: []string{"runs:read"}},
	} {
		f.send("POST", "/v1/keys", f.acme, in).problem(t, 422)
	}
	f.send("POST", "/v1/keys", f.operator, api.CreateKey{Name: "x", Role: "owner"}).problem(t, 422)
	f.ok("POST", "/v1/keys", f.operator, api.CreateKey{Name: "x", Role: "support"}, nil)
	f.ok("POST", "/v1/tenants/acme/keys", f.operator, api.CreateKey{Name: "x", Role: "owner"}, nil)

	writer := f.key("acme", "keys:write", "runs:write")
	f.send("POST", "/v1/keys", writer, api.CreateKey{Name: "x", Role: "viewer"}).problem(t, 403)
	f.ok("POST", "/v1/keys", writer, api.CreateKey{Name: "x", Scopes: []string{"runs:approve"}}, &k)
	f.send("POST", "/v1/keys", f.acme, api.CreateKey{Name: "x", Scopes: []string{"operator:read"}}).problem(t, 403)
	owner := f.roleKey("acme", httpapi.RoleOwner)
	f.ok("POST", "/v1/keys", owner, api.CreateKey{Name: "x"}, &k)
	f.send("POST", "/v1/keys/"+keyID(owner)+"/rotate", writer, nil).problem(t, 403)
	foreign := f.roleKey("acme", httpapi.RoleAdmin) // a role that does not exist in the tenant has no scopes
	f.send("GET", "/v1/runs", foreign, nil).problem(t, 403)
	f.send("GET", "/v1/tenants", foreign, nil).problem(t, 403)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	add := func(key string, in api.AddMember) *reply { return f.send("POST", "/v1/members", key, in) }
	var ann, bob api.Member
	f.ok("POST", "/v1/members", f.acme, api.AddMember{Email: "Ann@acme.example", Role: "owner", Name: "Ann"}, &ann)
	require.Equal(t, "ann@acme.example", ann.Email)
	add(f.acme, api.AddMember{Email: "ann@ACME.example", Role: "viewer"}).problem(t, 409)
	for _, in := range []api.AddMember{
		{Role: "owner"}, {Email: "a@b.example", Subject: "1", Role: "owner"}, {Email: "no address", Role: "owner"},
		{Email: "A <a@b.example>", Role: "owner"}, {Email: "a@b.example", Role: "admin"}, {Email: "a@b.example", Role: ""},
		{Subject: "1", Role: "viewer"}, // the server has no identity provider
	} {
		add(f.acme, in).problem(t, 422, in)
	}
	f.ok("POST", "/v1/members", f.acme, api.AddMember{Email: "bob@acme.example", Role: "developer"}, &bob)
	f.ok("POST", "/v1/members", f.beta, api.AddMember{Email: "bob@acme.example", Role: "owner"}, nil)

	one := "/v1/members/" + ann.ID
	require.Contains(t, f.send("DELETE", one, f.acme, nil).problem(t, 409).Detail, "the last owner")
	f.send("PATCH", one, f.acme, api.MemberUpdate{Role: "viewer"}).problem(t, 409)
	f.ok("PATCH", one, f.acme, api.MemberUpdate{Role: "owner"}, nil)
	f.send("DELETE", one, f.beta, nil).problem(t, 404)
	f.ok("PATCH", "/v1/members/"+bob.ID, f.acme, api.MemberUpdate{Role: "owner"}, &bob)
	f.ok("DELETE", one, f.acme, nil, nil)
	f.send("DELETE", "/v1/tenants/acme/members/"+bob.ID, f.operator, nil).problem(t, 409)

	var list struct{ Members []api.Member }
	f.ok("GET", "/v1/tenants/acme/members", f.roleKey(store.Operator, httpapi.RoleSupport), nil, &list)
	require.Equal(t, []api.Member{bob}, list.Members)
	f.send("GET", "/v1/tenants/none/members", f.operator, nil).problem(t, 404)

	// A caller cannot give, or take away, more than it has.
	weak := f.key("acme", "members:write", "runs:read")
	add(weak, api.AddMember{Email: "c@acme.example", Role: "owner"}).problem(t, 403)
	f.send("PATCH", "/v1/members/"+bob.ID, weak, api.MemberUpdate{Role: "viewer"}).problem(t, 403)
	f.send("DELETE", "/v1/members/"+bob.ID, weak, nil).problem(t, 403)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var one, again, support api.GroupRole
	f.ok("POST", "/v1/groups", f.operator, api.MapGroup{Group: "/eng", Tenant: "acme", Role: "developer"}, &one)
	f.ok("POST", "/v1/groups", f.operator, api.MapGroup{Group: "/eng", Tenant: "acme", Role: "viewer"}, &again)
	require.Equal(t, one.ID, again.ID)
	f.ok("POST", "/v1/groups", f.operator, api.MapGroup{Group: "/eng", Role: "support"}, &support)
	for _, in := range []api.MapGroup{{Group: "g", Tenant: "acme", Role: "admin"}, {Group: "g", Role: "owner"}} {
		f.send("POST", "/v1/groups", f.operator, in).problem(t, 422)
	}
	f.send("POST", "/v1/groups", f.operator, api.MapGroup{Group: "g", Tenant: "none", Role: "viewer"}).problem(t, 404)
	var list struct{ Groups []api.GroupRole }
	f.ok("GET", "/v1/groups", f.operator, nil, &list)
	require.Len(t, list.Groups, 2)
	f.ok("DELETE", "/v1/groups/"+one.ID, f.operator, nil, nil)
	f.send("DELETE", "/v1/groups/"+one.ID, f.operator, nil).problem(t, 404)
}
