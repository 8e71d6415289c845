package tenants

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Groups serves the operator's routes for groups of the identity provider.
type Groups struct{ Store store.Store }

func showGroup(g *store.GroupRole) *api.GroupRole {
	return &api.GroupRole{ID: g.ID, Group: g.Group, Tenant: g.Tenant, Role: g.Role, Created: g.Created.UTC()}
}

type (
	mapGroupInput struct{ Body api.MapGroup }
	groupOutput   struct{ Body *api.GroupRole }
	groupsOutput  struct {
		Body struct {
			Groups []*api.GroupRole `json:"groups" nullable:"false"`
			httpapi.ListOutput
		}
	}
	// GroupPath is embedded in inputs. It has the path parameter "group".
	GroupPath struct {
		Group string `path:"group" pattern:"^[a-z2-7]{10}$" doc:"The id of the group's role."`
	}
)

// Routes registers the endpoints that manage the roles of groups.
func (g *Groups) Routes(rt *httpapi.Router) {
	const tag = "members"
	httpapi.Register(rt, httpapi.Route{
		ID:      "map-group",
		Method:  "POST",
		Path:    "/v1/groups",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Status:  201,
		Summary: "Give a group of the identity provider a role in a tenant",
		About:   "Replaces the role that the group has in the tenant. Users of the group have the role from their next sign-in on.",
	}, func(ctx context.Context, c *httpapi.Caller, in *mapGroupInput) (*groupOutput, error) {
		if err := checkRole(c, g.Store.Tenant(in.Body.Tenant), in.Body.Role); err != nil {
			return nil, err
		}
		made, err := g.Store.MapGroup(ctx, in.Body.Group, in.Body.Tenant, in.Body.Role)
		if err != nil {
			return nil, err
		}
		return &groupOutput{showGroup(made)}, nil
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-groups",
		Method:  "GET",
		Path:    "/v1/groups",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List the roles of groups",
		About:   httpapi.AboutLists,
	}, g.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "unmap-group",
		Method:  "DELETE",
		Path:    "/v1/groups/{group}",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Remove the role of a group",
		About:   "Sessions of the group's users lose the role at once.",
	}, func(ctx context.Context, _ *httpapi.Caller, in *GroupPath) (*struct{}, error) {
		return nil, g.Store.UnmapGroup(ctx, in.Group)
	})
}

func (g *Groups) list(
	ctx context.Context, _ *httpapi.Caller, in *httpapi.LongListInput,
) (out *groupsOutput, err error) {
	out = &groupsOutput{}
	out.Body.Groups, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListGroups, store.Operator, g.Store.GroupRoles, showGroup)
	return out, err
}
