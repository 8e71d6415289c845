package tenants_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

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
	f := servertest.New(t)
	samples := servertest.Samples(t, f)
	for role, rule := range roleRules {
		t.Run(string(role), func(t *testing.T) {
			key := f.RoleKey(rule.tenant, role)
			for _, op := range f.Operations() {
				if op.Scope == httpapi.Public || op.Scope == httpapi.SignedIn {
					continue
				}
				if slices.Contains(rule.scopes, op.Scope) || slices.Contains(rule.also, op.ID) {
					if op.Method == http.MethodGet {
						require.NotEqual(t, 403, f.Send(op.Method, op.At(t, samples), key, nil).Status, op.ID)
					}
					continue
				}
				f.Send(op.Method, op.At(t, samples), key, op.Sample(t)).Problem(t, 403, op.ID)
			}
		})
	}
}

func TestApproverAnswersButStartsNothing(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	key := f.RoleKey("acme", httpapi.RoleApprover)
	start := api.StartRun{Agent: "clerk", Input: "hello"}
	require.Contains(t, f.Send("POST", "/v1/runs", key, start).Problem(t, 403).Detail, "this needs runs:write")
	resume := map[string]any{"run": "run_x", "answers": map[string]any{"i": map[string]string{"decision": "approve"}}}
	f.Send("POST", "/v1/runs", key, resume).Problem(t, 404)
	f.Send("POST", "/v1/runs", f.RoleKey("acme", httpapi.RoleViewer), resume).Problem(t, 403)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/agents/clerk/agui"} {
		f.Send("POST", path, key, map[string]any{"model": "clerk", "run": "run_x", "answers": map[string]any{}}).
			Problem(t, 403, path)
	}
}

func TestKeysWithRoles(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var k api.Key
	f.OK("POST", "/v1/keys", f.Acme, api.CreateKey{Name: "a", Role: "approver", ExpiresInSeconds: 60}, &k)
	require.Equal(t, "approver", k.Role)
	require.Equal(t, httpapi.RoleApprover.Scopes("acme"), k.Scopes)
	require.NotNil(t, k.Expires)
	var next api.Key
	f.OK("POST", "/v1/keys/"+k.ID+"/rotate", f.Acme, nil, &next)
	require.Equal(t, k.Scopes, next.Scopes)
	require.Equal(t, 200, f.Send("GET", "/v1/runs", next.Secret, nil).Status)

	for _, in := range []api.CreateKey{
		{Name: "x", Role: "admin"}, {Name: "x", Role: "king"}, {Name: "x", Role: "owner", Scopes: []string{"runs:read"}},
	} {
		f.Send("POST", "/v1/keys", f.Acme, in).Problem(t, 422)
	}
	f.Send("POST", "/v1/keys", f.Operator, api.CreateKey{Name: "x", Role: "owner"}).Problem(t, 422)
	f.OK("POST", "/v1/keys", f.Operator, api.CreateKey{Name: "x", Role: "support"}, nil)
	f.OK("POST", "/v1/tenants/acme/keys", f.Operator, api.CreateKey{Name: "x", Role: "owner"}, nil)

	writer := f.Key("acme", "keys:write", "runs:write")
	f.Send("POST", "/v1/keys", writer, api.CreateKey{Name: "x", Role: "viewer"}).Problem(t, 403)
	f.OK("POST", "/v1/keys", writer, api.CreateKey{Name: "x", Scopes: []string{"runs:approve"}}, &k)
	f.Send("POST", "/v1/keys", f.Acme, api.CreateKey{Name: "x", Scopes: []string{"operator:read"}}).Problem(t, 403)
	owner := f.RoleKey("acme", httpapi.RoleOwner)
	f.OK("POST", "/v1/keys", owner, api.CreateKey{Name: "x"}, &k)
	f.Send("POST", "/v1/keys/"+servertest.KeyID(owner)+"/rotate", writer, nil).Problem(t, 403)
	foreign := f.RoleKey("acme", httpapi.RoleAdmin) // a role that does not exist in the tenant has no scopes
	f.Send("GET", "/v1/runs", foreign, nil).Problem(t, 403)
	f.Send("GET", "/v1/tenants", foreign, nil).Problem(t, 403)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	add := func(key string, in api.AddMember) *servertest.Reply { return f.Send("POST", "/v1/members", key, in) }
	var ann, bob api.Member
	f.OK("POST", "/v1/members", f.Acme, api.AddMember{Email: "Ann@acme.example", Role: "owner", Name: "Ann"}, &ann)
	require.Equal(t, "ann@acme.example", ann.Email)
	add(f.Acme, api.AddMember{Email: "ann@ACME.example", Role: "viewer"}).Problem(t, 409)
	for _, in := range []api.AddMember{
		{Role: "owner"}, {Email: "a@b.example", Subject: "1", Role: "owner"}, {Email: "no address", Role: "owner"},
		{Email: "A <a@b.example>", Role: "owner"}, {Email: "a@b.example", Role: "admin"}, {Email: "a@b.example", Role: ""},
		{Subject: "1", Role: "viewer"}, // the server has no identity provider
	} {
		add(f.Acme, in).Problem(t, 422, in)
	}
	f.OK("POST", "/v1/members", f.Acme, api.AddMember{Email: "bob@acme.example", Role: "developer"}, &bob)
	f.OK("POST", "/v1/members", f.Beta, api.AddMember{Email: "bob@acme.example", Role: "owner"}, nil)

	one := "/v1/members/" + ann.ID
	require.Contains(t, f.Send("DELETE", one, f.Acme, nil).Problem(t, 409).Detail, "the last owner")
	f.Send("PATCH", one, f.Acme, api.MemberUpdate{Role: "viewer"}).Problem(t, 409)
	f.OK("PATCH", one, f.Acme, api.MemberUpdate{Role: "owner"}, nil)
	f.Send("DELETE", one, f.Beta, nil).Problem(t, 404)
	f.OK("PATCH", "/v1/members/"+bob.ID, f.Acme, api.MemberUpdate{Role: "owner"}, &bob)
	f.OK("DELETE", one, f.Acme, nil, nil)
	f.Send("DELETE", "/v1/tenants/acme/members/"+bob.ID, f.Operator, nil).Problem(t, 409)

	var list struct{ Members []api.Member }
	f.OK("GET", "/v1/tenants/acme/members", f.RoleKey(store.Operator, httpapi.RoleSupport), nil, &list)
	require.Equal(t, []api.Member{bob}, list.Members)
	f.Send("GET", "/v1/tenants/none/members", f.Operator, nil).Problem(t, 404)

	// A caller cannot give, or take away, more than it has.
	weak := f.Key("acme", "members:write", "runs:read")
	add(weak, api.AddMember{Email: "c@acme.example", Role: "owner"}).Problem(t, 403)
	f.Send("PATCH", "/v1/members/"+bob.ID, weak, api.MemberUpdate{Role: "viewer"}).Problem(t, 403)
	f.Send("DELETE", "/v1/members/"+bob.ID, weak, nil).Problem(t, 403)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var one, again, support api.GroupRole
	f.OK("POST", "/v1/groups", f.Operator, api.MapGroup{Group: "/eng", Tenant: "acme", Role: "developer"}, &one)
	f.OK("POST", "/v1/groups", f.Operator, api.MapGroup{Group: "/eng", Tenant: "acme", Role: "viewer"}, &again)
	require.Equal(t, one.ID, again.ID)
	f.OK("POST", "/v1/groups", f.Operator, api.MapGroup{Group: "/eng", Role: "support"}, &support)
	for _, in := range []api.MapGroup{{Group: "g", Tenant: "acme", Role: "admin"}, {Group: "g", Role: "owner"}} {
		f.Send("POST", "/v1/groups", f.Operator, in).Problem(t, 422)
	}
	f.Send("POST", "/v1/groups", f.Operator, api.MapGroup{Group: "g", Tenant: "none", Role: "viewer"}).Problem(t, 404)
	var list struct{ Groups []api.GroupRole }
	f.OK("GET", "/v1/groups", f.Operator, nil, &list)
	require.Len(t, list.Groups, 2)
	f.OK("DELETE", "/v1/groups/"+one.ID, f.Operator, nil, nil)
	f.Send("DELETE", "/v1/groups/"+one.ID, f.Operator, nil).Problem(t, 404)
}
