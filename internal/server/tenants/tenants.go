package tenants

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Tenants serves the operator's routes for tenants.
type Tenants struct {
	Store    store.Store
	Timeouts *httpapi.Timeouts
	Runs     interface {
		CancelAll(ctx context.Context, t *store.Tenant) error
	}
}

func newTenant(info *store.TenantInfo) (*api.Tenant, error) {
	p, err := policy.Of(info)
	return &api.Tenant{ID: info.ID, Name: info.Name, Quota: api.TenantQuota(info.Quota), Policy: api.Policy(p),
		Created: info.Created.UTC(), Updated: info.Updated.UTC()}, err
}

type (
	// TenantPath is embedded in inputs. It has the path parameter "tenant".
	TenantPath struct {
		Tenant string `path:"tenant" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The tenant's id."`
	}
	tenantOutput      struct{ Body *api.Tenant }
	createTenantInput struct{ Body api.CreateTenant }
	listTenantsInput  struct {
		httpapi.NameInput
		After string `query:"after" maxLength:"63" deprecated:"true" doc:"Only tenants whose ids sort after this one. Deprecated: use cursor."`
		httpapi.ListInput
	}
	listTenantsOutput struct {
		Body struct {
			Tenants []*api.Tenant `json:"tenants" nullable:"false"`
			httpapi.ListOutput
		}
	}
	updateTenantInput struct {
		TenantPath
		Body api.TenantUpdate
	}
)

// Routes registers the endpoints that manage tenants.
func (t *Tenants) Routes(rt *httpapi.Router) {
	const tag = "tenants"
	httpapi.Register(rt, httpapi.Route{
		ID:      "create-tenant",
		Method:  "POST",
		Path:    "/v1/tenants",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Status:  201,
		Summary: "Create a tenant",
	}, t.create)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-tenants",
		Method:  "GET",
		Path:    "/v1/tenants",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List tenants",
		About:   httpapi.AboutLists,
	}, t.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-tenant",
		Method:  "GET",
		Path:    "/v1/tenants/{tenant}",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "Show a tenant",
	}, t.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "update-tenant",
		Method:  "PATCH",
		Path:    "/v1/tenants/{tenant}",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Change a tenant's name, quota or policy",
	}, t.update)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-tenant",
		Method:  "DELETE",
		Path:    "/v1/tenants/{tenant}",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Delete a tenant and all its data",
		About:   "First revokes the tenant's keys and cancels its runs, on all servers. If the runs do not end in time, or cannot all be deleted in time, it fails with 409; repeat the request to continue.",
	}, t.delete)
}

func (t *Tenants) create(ctx context.Context, _ *httpapi.Caller, in *createTenantInput) (*tenantOutput, error) {
	if in.Body.Quota == nil {
		in.Body.Quota = &api.TenantQuota{}
	}
	if in.Body.Policy == nil {
		in.Body.Policy = &api.Policy{}
	}
	policy, err := json.Marshal(in.Body.Policy)
	if err != nil {
		return nil, err
	}
	name := in.Body.Name
	if name == "" {
		name = in.Body.ID
	}
	info, err := t.Store.CreateTenant(ctx, in.Body.ID, name, store.TenantQuota(*in.Body.Quota), policy)
	return tenantAnswer(info, err)
}

func tenantAnswer(info *store.TenantInfo, err error) (*tenantOutput, error) {
	if err != nil {
		return nil, err
	}
	shown, err := newTenant(info)
	return &tenantOutput{shown}, err
}

func (t *Tenants) list(ctx context.Context, _ *httpapi.Caller, in *listTenantsInput) (*listTenantsOutput, error) {
	page, err := in.Page(httpapi.ListTenants, store.Operator, in.Limit)
	if err != nil {
		return nil, err
	}
	if page.After, err = httpapi.PositionAfter(page.After, in.After); err != nil {
		return nil, err
	}
	page.Name = in.Name
	infos, next, err := t.Store.Tenants(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listTenantsOutput{}
	out.Body.Tenants = []*api.Tenant{}
	out.Body.SetNext(httpapi.ListTenants, store.Operator, next)
	for i := range infos {
		shown, err := newTenant(&infos[i])
		if err != nil {
			return nil, err
		}
		out.Body.Tenants = append(out.Body.Tenants, shown)
	}
	return out, nil
}

func (t *Tenants) get(ctx context.Context, _ *httpapi.Caller, in *TenantPath) (*tenantOutput, error) {
	return tenantAnswer(t.Store.TenantInfo(ctx, in.Tenant))
}

func (t *Tenants) update(ctx context.Context, _ *httpapi.Caller, in *updateTenantInput) (*tenantOutput, error) {
	u := &store.TenantUpdate{Name: in.Body.Name, Quota: (*store.TenantQuota)(in.Body.Quota)}
	if in.Body.Policy != nil {
		var err error
		if u.Policy, err = json.Marshal(in.Body.Policy); err != nil {
			return nil, err
		}
	}
	return tenantAnswer(t.Store.UpdateTenant(ctx, in.Tenant, u))
}
