package tokens

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// CORS serves the routes for the origins whose pages may use a tenant's tokens.
type CORS struct{ Store store.Store }

type (
	corsInput struct{ Body api.CORS }
	// TenantPath is embedded in inputs. It has the path parameter "tenant".
	TenantPath struct {
		Tenant string `path:"tenant" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The tenant's id."`
	}
	tenantCORSInput struct {
		TenantPath
		Body api.CORS
	}
	corsOutput struct{ Body api.CORS }
)

// Routes registers the endpoints that show and set origins.
func (x *CORS) Routes(rt *httpapi.Router) {
	const tag, own, of = "cors", "/v1/cors", "/v1/tenants/{tenant}/cors"
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-cors",
		Method:  "GET",
		Path:    own,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show the origins whose pages may use your tenant's tokens",
	}, func(ctx context.Context, c *httpapi.Caller, _ *struct{}) (*corsOutput, error) {
		return showCORS(ctx, c.Tenant)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "set-cors",
		Method:  "PUT",
		Path:    own,
		Scope:   httpapi.CORSWrite,
		Tag:     tag,
		Summary: "Set the origins whose pages may use your tenant's tokens",
		About:   "Replaces all origins. Pages of other origins get no access, and no page gets access with a key or a session.",
	}, func(ctx context.Context, c *httpapi.Caller, in *corsInput) (*corsOutput, error) {
		return setCORS(ctx, c.Tenant, in.Body.Origins)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-tenant-cors",
		Method:  "GET",
		Path:    of,
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "Show the origins whose pages may use a tenant's tokens",
	}, func(ctx context.Context, _ *httpapi.Caller, in *TenantPath) (*corsOutput, error) {
		if _, err := x.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return showCORS(ctx, x.Store.Tenant(in.Tenant))
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "set-tenant-cors",
		Method:  "PUT",
		Path:    of,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Set the origins whose pages may use a tenant's tokens",
	}, func(ctx context.Context, _ *httpapi.Caller, in *tenantCORSInput) (*corsOutput, error) {
		return setCORS(ctx, x.Store.Tenant(in.Tenant), in.Body.Origins)
	})
}

func showCORS(ctx context.Context, t *store.Tenant) (*corsOutput, error) {
	list, err := t.Origins(ctx)
	if err != nil {
		return nil, err
	}
	return &corsOutput{api.CORS{Origins: append([]string{}, list...)}}, nil
}

func setCORS(ctx context.Context, t *store.Tenant, origins []string) (*corsOutput, error) {
	if t.ID() == store.Operator {
		return nil, httpapi.NewProblem(api.CodeForbidden, "origins are for the tokens of tenants, and the operator has none")
	}
	for i, o := range origins {
		if err := httpapi.CheckOrigin(o); err != nil {
			return nil, httpapi.NewProblem(api.CodeInvalid, "origins[%d] is %.100q: %v", i, o, err)
		}
	}
	if err := t.SetOrigins(ctx, origins); err != nil {
		return nil, err
	}
	return showCORS(ctx, t)
}
