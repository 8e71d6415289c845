package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// membersOf returns the path of a tenant's members. An empty tenant is the caller's own.
func membersOf(tenant string) string {
	if tenant == "" {
		return "/v1/members"
	}
	return path("/v1/tenants/%s/members", tenant)
}

// AddMember adds a member to a tenant. An empty tenant is the caller's own.
func (c *Client) AddMember(ctx context.Context, tenant string, m *api.AddMember) (*api.Member, error) {
	out := &api.Member{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: membersOf(tenant), in: m}, out)
}

// Members returns a page of a tenant's members and the next page's cursor. An empty tenant is the
// caller's own.
func (c *Client) Members(ctx context.Context, tenant string, p Page) (members []*api.Member, next string, err error) {
	var out struct {
		Members []*api.Member `json:"members"`
		Next    string        `json:"next_cursor"`
	}
	err = c.get(ctx, membersOf(tenant), p.query(), &out)
	return out.Members, out.Next, err
}

// SetMemberRole changes the role of the member with the given id. An empty tenant is the caller's
// own.
func (c *Client) SetMemberRole(ctx context.Context, tenant, id, role string) (*api.Member, error) {
	out := &api.Member{}
	in := &api.MemberUpdate{Role: role}
	return out, c.call(ctx, &request{method: http.MethodPatch, path: membersOf(tenant) + path("/%s", id), in: in}, out)
}

// RemoveMember removes the member with the given id. An empty tenant is the caller's own.
func (c *Client) RemoveMember(ctx context.Context, tenant, id string) error {
	return c.delete(ctx, membersOf(tenant)+path("/%s", id))
}

// MapGroup gives a group of the identity provider a role in a tenant.
func (c *Client) MapGroup(ctx context.Context, g *api.MapGroup) (*api.GroupRole, error) {
	out := &api.GroupRole{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: "/v1/groups", in: g}, out)
}

// Groups returns a page of the roles of groups and the next page's cursor.
func (c *Client) Groups(ctx context.Context, p Page) (groups []*api.GroupRole, next string, err error) {
	var out struct {
		Groups []*api.GroupRole `json:"groups"`
		Next   string           `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/groups", p.query(), &out)
	return out.Groups, out.Next, err
}

// UnmapGroup removes the role with the given id from its group.
func (c *Client) UnmapGroup(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/groups/%s", id))
}

// Me describes the sender of the client's requests: the key, or the person to whom a token of the
// identity provider belongs.
func (c *Client) Me(ctx context.Context) (*api.Me, error) {
	out := &api.Me{}
	return out, c.get(ctx, "/v1/me", nil, out)
}
