package tenants

import (
	"context"
	"net/mail"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Members serves the routes for the members of tenants: people who sign in with the identity
// provider. The operator manages the members of all tenants. A tenant manages its own members.
type Members struct {
	Store store.Store
	// Issuer is the identity provider that the subjects of members belong to; empty if the server
	// has none.
	Issuer string
}

func showMember(m *store.Member) *api.Member {
	out := &api.Member{
		ID:      m.ID,
		Tenant:  m.Tenant,
		Email:   m.Email,
		Subject: m.Subject,
		Name:    m.Name,
		Role:    m.Role,
		Created: m.Created.UTC(),
	}
	if !m.Joined.IsZero() {
		at := m.Joined.UTC()
		out.Joined = &at
	}
	return out
}

type (
	// MemberPath is embedded in inputs. It has the path parameter "member".
	MemberPath struct {
		Member string `path:"member" pattern:"^[a-z2-7]{10}$" doc:"The member's id."`
	}
	// TenantMemberPath is embedded in inputs. It has the path parameters "tenant" and "member".
	TenantMemberPath struct {
		TenantPath
		MemberPath
	}
	memberOutput  struct{ Body *api.Member }
	membersOutput struct {
		Body struct {
			Members []*api.Member `json:"members" nullable:"false"`
			httpapi.ListOutput
		}
	}
	addMemberInput       struct{ Body api.AddMember }
	addTenantMemberInput struct {
		TenantPath
		Body api.AddMember
	}
	updateMemberInput struct {
		MemberPath
		Body api.MemberUpdate
	}
	updateTenantMemberInput struct {
		TenantMemberPath
		Body api.MemberUpdate
	}
)

// Routes registers the endpoints that manage members.
func (m *Members) Routes(rt *httpapi.Router) {
	const tag, all, one = "members", "/v1/members", "/v1/members/{member}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "add-member",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.MembersWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Add a member to your tenant",
		About:   aboutMembers,
	}, func(ctx context.Context, c *httpapi.Caller, in *addMemberInput) (*memberOutput, error) {
		return m.add(ctx, c, c.Tenant, &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-members",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.MembersRead,
		Tag:     tag,
		Summary: "List your tenant's members",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, c *httpapi.Caller, in *httpapi.LongListInput) (*membersOutput, error) {
		return m.list(ctx, c.Tenant, in)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "update-member",
		Method:  "PATCH",
		Path:    one,
		Scope:   httpapi.MembersWrite,
		Tag:     tag,
		Summary: "Change a member's role",
	}, func(ctx context.Context, c *httpapi.Caller, in *updateMemberInput) (*memberOutput, error) {
		return m.update(ctx, c, c.Tenant, in.Member, &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "remove-member",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.MembersWrite,
		Tag:     tag,
		Summary: "Remove a member",
		About:   "The member's sessions lose their access at once, on all servers. The last owner cannot be removed.",
	}, func(ctx context.Context, c *httpapi.Caller, in *MemberPath) (*struct{}, error) {
		return m.remove(ctx, c, c.Tenant, in.Member)
	})
	m.operatorRoutes(rt)
}

const aboutMembers = `Give the e-mail address or the subject of a person at the identity provider. The person needs no
invitation by mail: who signs in with a verified address, or with the subject, is the member. The first sign-in binds a
member with an address to the person's subject.`

func (m *Members) operatorRoutes(rt *httpapi.Router) {
	const tag, all, one = "members", "/v1/tenants/{tenant}/members", "/v1/tenants/{tenant}/members/{member}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "add-tenant-member",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Status:  201,
		Summary: "Add a member to a tenant",
		About:   aboutMembers,
	}, func(ctx context.Context, c *httpapi.Caller, in *addTenantMemberInput) (*memberOutput, error) {
		return m.add(ctx, c, m.Store.Tenant(in.Tenant), &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-tenant-members",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List a tenant's members",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, _ *httpapi.Caller, in *listTenantKeysInput) (*membersOutput, error) {
		if _, err := m.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return m.list(ctx, m.Store.Tenant(in.Tenant), &in.LongListInput)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "update-tenant-member",
		Method:  "PATCH",
		Path:    one,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Change the role of a tenant's member",
	}, func(ctx context.Context, c *httpapi.Caller, in *updateTenantMemberInput) (*memberOutput, error) {
		return m.update(ctx, c, m.Store.Tenant(in.Tenant), in.Member, &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "remove-tenant-member",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Remove a tenant's member",
	}, func(ctx context.Context, c *httpapi.Caller, in *TenantMemberPath) (*struct{}, error) {
		return m.remove(ctx, c, m.Store.Tenant(in.Tenant), in.Member)
	})
}

// add adds a member. The caller must have the scopes of the member's role, unless it is the
// operator and the tenant is another one.
func (m *Members) add(
	ctx context.Context,
	c *httpapi.Caller,
	t *store.Tenant,
	in *api.AddMember,
) (*memberOutput, error) {
	if err := checkRole(c, t, in.Role); err != nil {
		return nil, err
	}
	member := &store.Member{Name: in.Name, Role: in.Role, Subject: in.Subject}
	switch {
	case (in.Email == "") == (in.Subject == ""):
		return nil, httpapi.NewProblem(api.CodeInvalid, "want either email or subject")
	case in.Email != "":
		address, err := mail.ParseAddress(in.Email)
		if err != nil || address.Name != "" || address.Address != in.Email {
			return nil, httpapi.NewProblem(api.CodeInvalid, "email is no address, such as ann@example.com")
		}
		member.Email = strings.ToLower(in.Email)
	case m.Issuer == "":
		return nil, httpapi.NewProblem(api.CodeInvalid,
			"the server has no identity provider to which the subject could belong; give an e-mail address")
	default:
		member.Issuer = m.Issuer
	}
	added, err := t.AddMember(ctx, member)
	if err != nil {
		return nil, err
	}
	return &memberOutput{showMember(added)}, nil
}

// checkRole fails if a role does not exist in a tenant, or has scopes that the caller lacks. The
// operator may give all roles of other tenants.
func checkRole(c *httpapi.Caller, t *store.Tenant, role string) error {
	roles := httpapi.RolesOf(t.ID())
	if !slices.Contains(roles, httpapi.Role(role)) {
		return httpapi.NewProblem(api.CodeInvalid, "role is %.40q; want one of %s", role, joinRoles(roles))
	}
	if t.ID() != c.Tenant.ID() {
		return nil
	}
	if lacks := c.Lacks(httpapi.Role(role).Scopes(t.ID())); lacks != "" {
		return httpapi.NewProblem(
			api.CodeForbidden,
			"the role %s has the scope %s, which you lack; ask someone with that role",
			role,
			lacks,
		)
	}
	return nil
}

func joinRoles(roles []httpapi.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

func (m *Members) list(
	ctx context.Context, t *store.Tenant, in *httpapi.LongListInput,
) (out *membersOutput, err error) {
	out = &membersOutput{}
	out.Body.Members, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListMembers, t.ID(), t.Members, showMember)
	return out, err
}

// lastRole returns the role that at least one member of a tenant must have. The operator's own tenant
// needs no such member, because a command can create keys for it.
func lastRole(t *store.Tenant) string {
	if t.ID() == store.Operator {
		return ""
	}
	return string(httpapi.RoleOwner)
}

func (m *Members) update(
	ctx context.Context,
	c *httpapi.Caller,
	t *store.Tenant,
	id string,
	in *api.MemberUpdate,
) (*memberOutput, error) {
	if err := checkRole(c, t, in.Role); err != nil {
		return nil, err
	}
	if err := m.checkChange(ctx, c, t, id); err != nil {
		return nil, err
	}
	changed, err := t.SetMemberRole(ctx, id, in.Role, lastRole(t))
	if err != nil {
		return nil, err
	}
	return &memberOutput{showMember(changed)}, nil
}

func (m *Members) remove(ctx context.Context, c *httpapi.Caller, t *store.Tenant, id string) (*struct{}, error) {
	if err := m.checkChange(ctx, c, t, id); err != nil {
		return nil, err
	}
	return nil, t.RemoveMember(ctx, id, lastRole(t))
}

// checkChange fails if the caller may not change a member, because the member's present role has
// scopes that the caller lacks.
func (m *Members) checkChange(ctx context.Context, c *httpapi.Caller, t *store.Tenant, id string) error {
	old, err := t.Member(ctx, id)
	if err != nil {
		return err
	}
	return checkRole(c, t, old.Role)
}
