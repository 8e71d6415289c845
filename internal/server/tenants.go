package server

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// tenants are the operator's business.
type tenants struct {
	store store.Store
	runs  *runs
}

// A Policy is what the operator allows a tenant. Its zero value allows a module
// what harms nobody: reading the conversation of its own agent.
type Policy struct {
	Grants   []string `json:"grants,omitempty" doc:"Grants that the tenant's agents may give to modules, as in agent.yaml. A trailing * matches anything: read:*, tool:*. Default: read:*, which cannot affect other tenants."`
	Models   []string `json:"models,omitempty" doc:"Models that the tenant's agents may use. A trailing * matches anything. Default: any, with the tenant's own credentials."`
	Params   []string `json:"params,omitempty" doc:"Additional model parameters that the tenant's agents and modules may set. Parameters that cannot raise the price are always allowed. A trailing * matches anything. Default: none if models is set, else any."`
	Hosts    []string `json:"hosts,omitempty" doc:"Hosts that modules and MCP servers may reach, such as api.example.com or *.example.com. Default: none."`
	MaxSteps int      `json:"max_steps,omitempty" minimum:"0" maximum:"100000" doc:"Maximum number of steps per run, up to 100,000. Default: 1,000."`
}

// defaultMaxSteps is the policy's max_steps where the operator says nothing.
const defaultMaxSteps = 1_000

// maxSteps returns the most steps that a run of the tenant may have. A policy that was stored before
// there was a maximum may exceed it.
func (p *Policy) maxSteps() int { return min(cmp.Or(p.MaxSteps, defaultMaxSteps), agentfile.MaxSteps) }

// A Tenant is one as the API shows it.
type Tenant struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Quota   store.TenantQuota `json:"quota"`
	Policy  Policy            `json:"policy"`
	Created time.Time         `json:"created"`
	Updated time.Time         `json:"updated"`
}

func showTenant(info *store.TenantInfo) (*Tenant, error) {
	t := &Tenant{ID: info.ID, Name: info.Name, Quota: info.Quota, Created: info.Created.UTC(), Updated: info.Updated.UTC()}
	return t, json.Unmarshal(info.Policy, &t.Policy)
}

// policyOf is what the operator allows the caller's tenant.
func policyOf(c *Caller) (p Policy, err error) {
	return p, json.Unmarshal(c.Info.Policy, &p)
}

type (
	// TenantPath is a part of inputs. Such parts are exported, or their fields would
	// not be filled in.
	TenantPath struct {
		Tenant string `path:"tenant" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The tenant's id."`
	}
	tenantOutput      struct{ Body *Tenant }
	createTenantInput struct {
		Body struct {
			ID     string            `json:"id" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" example:"acme" doc:"The tenant's id. It cannot be changed later."`
			Name   string            `json:"name,omitempty" maxLength:"200" doc:"The display name. Default: the id."`
			Quota  store.TenantQuota `json:"quota,omitempty" doc:"The tenant's quota. Default: no limits."`
			Policy Policy            `json:"policy,omitempty"`
		}
	}
	listTenantsInput struct {
		After string `query:"after" maxLength:"63" deprecated:"true" doc:"Only tenants whose ids sort after this one. Deprecated: use cursor."`
		ListInput
	}
	listTenantsOutput struct {
		Body struct {
			Tenants []*Tenant `json:"tenants" nullable:"false"`
			ListOutput
		}
	}
	updateTenantInput struct {
		TenantPath
		Body struct {
			Name   *string            `json:"name,omitempty" maxLength:"200"`
			Quota  *store.TenantQuota `json:"quota,omitempty" doc:"Replaces the whole quota."`
			Policy *Policy            `json:"policy,omitempty" doc:"Replaces the whole policy."`
		}
	}
)

func (t *tenants) routes(s *Server) {
	const tag = "tenants"
	route(s, Route{ID: "create-tenant", Method: "POST", Path: "/v1/tenants", Scope: OperatorScope, Tag: tag, Status: 201, Summary: "Create a tenant"}, t.create)
	route(s, Route{ID: "list-tenants", Method: "GET", Path: "/v1/tenants", Scope: OperatorScope, Tag: tag, Summary: "List tenants", About: aboutLists}, t.list)
	route(s, Route{ID: "get-tenant", Method: "GET", Path: "/v1/tenants/{tenant}", Scope: OperatorScope, Tag: tag, Summary: "Show a tenant"}, t.get)
	route(s, Route{ID: "update-tenant", Method: "PATCH", Path: "/v1/tenants/{tenant}", Scope: OperatorScope, Tag: tag,
		Summary: "Change a tenant's name, quota or policy"}, t.update)
	route(s, Route{ID: "delete-tenant", Method: "DELETE", Path: "/v1/tenants/{tenant}", Scope: OperatorScope, Tag: tag,
		Summary: "Delete a tenant and all its data",
		About:   "First revokes the tenant's keys and cancels its runs, on all servers. If the runs do not end in time, or cannot all be deleted in time, it fails with 409; repeat the request to continue."}, t.delete)
}

func (t *tenants) create(ctx context.Context, _ *Caller, in *createTenantInput) (*tenantOutput, error) {
	policy, err := json.Marshal(in.Body.Policy)
	if err != nil {
		return nil, err
	}
	name := in.Body.Name
	if name == "" {
		name = in.Body.ID
	}
	info, err := t.store.CreateTenant(ctx, in.Body.ID, name, in.Body.Quota, policy)
	return tenantAnswer(info, err)
}

func tenantAnswer(info *store.TenantInfo, err error) (*tenantOutput, error) {
	if err != nil {
		return nil, err
	}
	shown, err := showTenant(info)
	return &tenantOutput{shown}, err
}

func (t *tenants) list(ctx context.Context, _ *Caller, in *listTenantsInput) (*listTenantsOutput, error) {
	page, err := in.page(listTenants, store.Operator, in.Limit)
	if err != nil {
		return nil, err
	}
	if page.After, err = afterName(page.After, in.After); err != nil {
		return nil, err
	}
	infos, next, err := t.store.Tenants(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &listTenantsOutput{}
	out.Body.Tenants = []*Tenant{}
	out.Body.setNext(listTenants, store.Operator, next)
	for i := range infos {
		shown, err := showTenant(&infos[i])
		if err != nil {
			return nil, err
		}
		out.Body.Tenants = append(out.Body.Tenants, shown)
	}
	return out, nil
}

func (t *tenants) get(ctx context.Context, _ *Caller, in *TenantPath) (*tenantOutput, error) {
	return tenantAnswer(t.store.TenantInfo(ctx, in.Tenant))
}

func (t *tenants) update(ctx context.Context, _ *Caller, in *updateTenantInput) (*tenantOutput, error) {
	u := &store.TenantUpdate{Name: in.Body.Name, Quota: in.Body.Quota}
	if in.Body.Policy != nil {
		var err error
		if u.Policy, err = json.Marshal(in.Body.Policy); err != nil {
			return nil, err
		}
	}
	return tenantAnswer(t.store.UpdateTenant(ctx, in.Tenant, u))
}
