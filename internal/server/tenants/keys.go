package tenants

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Keys serves the routes for API keys. The operator manages the keys of all tenants. A tenant manages
// its own keys.
type Keys struct{ Store store.Store }

func showKey(k *store.Key) *api.Key {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return &api.Key{
		ID:      k.ID,
		Tenant:  k.Tenant,
		Name:    k.Name,
		Scopes:  scopesOf(k),
		Role:    k.Role,
		Created: k.Created.UTC(),
		Expires: at(k.Expires),
		Revoked: at(k.Revoked),
		Used:    at(k.Used),
	}
}

// scopesOf returns the scopes of a key, or of its role.
func scopesOf(k *store.Key) []string {
	if k.Role != "" {
		return httpapi.Role(k.Role).Scopes(k.Tenant)
	}
	return k.Scopes
}

type (
	// KeyPath is embedded in inputs. It has the path parameter "key".
	KeyPath struct {
		Key string `path:"key" pattern:"^[a-z2-7]{10}$" doc:"The key's id: the part between ar_ and the next underscore."`
	}
	keyOutput  struct{ Body *api.Key }
	keysOutput struct {
		Body struct {
			Keys []*api.Key `json:"keys" nullable:"false"`
			httpapi.ListOutput
		}
	}
	rotateBody struct {
		Grace int64 `json:"grace_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"Seconds for which the old key remains valid. Default: 0."`
	}
	// KeysInput selects a page of the keys of a tenant.
	KeysInput struct {
		httpapi.LongListInput
		httpapi.NameInput
	}
	listTenantKeysInput struct {
		TenantPath
		KeysInput
	}
	createKeyInput       struct{ Body api.CreateKey }
	createTenantKeyInput struct {
		TenantPath
		Body api.CreateKey
	}
	// TenantKeyPath is embedded in inputs. It has the path parameters "tenant" and "key".
	TenantKeyPath struct {
		TenantPath
		KeyPath
	}
	rotateKeyInput struct {
		KeyPath
		Body *rotateBody
	}
	rotateTenantKeyInput struct {
		TenantKeyPath
		Body *rotateBody
	}
)

// Routes registers the endpoints that manage keys.
func (k *Keys) Routes(rt *httpapi.Router) {
	const tag, one, of, all = "keys", "/v1/keys/{key}", "/v1/tenants/{tenant}/keys/{key}", "/v1/tenants/{tenant}/keys"
	httpapi.Register(rt, httpapi.Route{
		ID:      "create-key",
		Method:  "POST",
		Path:    "/v1/keys",
		Scope:   httpapi.KeysWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Create a key for your tenant",
	}, func(ctx context.Context, c *httpapi.Caller, in *createKeyInput) (*keyOutput, error) {
		return k.create(ctx, c, c.Tenant, c.Key.Scopes, &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-keys",
		Method:  "GET",
		Path:    "/v1/keys",
		Scope:   httpapi.KeysRead,
		Tag:     tag,
		Summary: "List your tenant's keys, newest first",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, c *httpapi.Caller, in *KeysInput) (*keysOutput, error) {
		return k.list(ctx, c.Tenant, in)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "rotate-key",
		Method:  "POST",
		Path:    one + "/rotate",
		Scope:   httpapi.KeysWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Replace a key",
	}, func(ctx context.Context, c *httpapi.Caller, in *rotateKeyInput) (*keyOutput, error) {
		return k.rotate(ctx, c, c.Tenant, in.Key, in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "revoke-key",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.KeysWrite,
		Tag:     tag,
		Summary: "Revoke a key",
	}, func(ctx context.Context, c *httpapi.Caller, in *KeyPath) (*struct{}, error) {
		return nil, c.Tenant.RevokeKey(ctx, in.Key)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "create-tenant-key",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Status:  201,
		Summary: "Create a key for a tenant",
	}, func(ctx context.Context, c *httpapi.Caller, in *createTenantKeyInput) (*keyOutput, error) {
		return k.create(ctx, c, k.Store.Tenant(in.Tenant), httpapi.ScopeNames(httpapi.TenantScopes), &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-tenant-keys",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List a tenant's keys, newest first",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, _ *httpapi.Caller, in *listTenantKeysInput) (*keysOutput, error) {
		if _, err := k.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return k.list(ctx, k.Store.Tenant(in.Tenant), &in.KeysInput)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "rotate-tenant-key",
		Method:  "POST",
		Path:    of + "/rotate",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Status:  201,
		Summary: "Replace a tenant's key",
	}, func(ctx context.Context, c *httpapi.Caller, in *rotateTenantKeyInput) (*keyOutput, error) {
		return k.rotate(ctx, c, k.Store.Tenant(in.Tenant), in.Key, in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "revoke-tenant-key",
		Method:  "DELETE",
		Path:    of,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Revoke a tenant's key",
	}, func(ctx context.Context, _ *httpapi.Caller, in *TenantKeyPath) (*struct{}, error) {
		return nil, k.Store.Tenant(in.Tenant).RevokeKey(ctx, in.Key)
	})
}

// create creates a key of a tenant, with scopes or a role. may lists the scopes that the key can have,
// which are also the default.
func (k *Keys) create(
	ctx context.Context,
	c *httpapi.Caller,
	t *store.Tenant,
	may []string,
	in *api.CreateKey,
) (*keyOutput, error) {
	scopes := in.Scopes
	if len(scopes) == 0 {
		scopes = may
	}
	if in.Role != "" {
		if len(in.Scopes) > 0 {
			return nil, httpapi.NewProblem(api.CodeInvalid, "want either role or scopes")
		}
		if err := checkRole(c, t, in.Role); err != nil {
			return nil, err
		}
		scopes = nil
	}
	for _, scope := range scopes {
		if !httpapi.Scope(scope).Known() || !httpapi.Scope(scope).In(may) {
			return nil, httpapi.NewProblem(api.CodeForbidden, "scope %q cannot be granted here; want one of %s",
				scope, strings.Join(may, ", "))
		}
	}
	made, shown, err := t.CreateKey(
		ctx,
		&store.KeyOptions{Name: in.Name, Role: in.Role, Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))),
			TTL: time.Duration(in.ExpiresInSeconds) * time.Second},
	)
	return keyAnswer(made, shown, err)
}

func keyAnswer(k *store.Key, shown string, err error) (*keyOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &keyOutput{showKey(k)}
	out.Body.Secret = shown
	return out, nil
}

func (k *Keys) list(ctx context.Context, t *store.Tenant, in *KeysInput) (out *keysOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.Key, *store.Position, error) {
		p.Name = in.Name
		return t.Keys(ctx, p)
	}
	out = &keysOutput{}
	out.Body.Keys, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListKeys, t.ID(), read, showKey)
	return out, err
}

// rotate replaces a key. A caller without OperatorScope cannot rotate a key with a scope that its
// own key lacks, since it would receive the new key.
func (k *Keys) rotate(
	ctx context.Context,
	c *httpapi.Caller,
	t *store.Tenant,
	id string,
	in *rotateBody,
) (*keyOutput, error) {
	old, err := t.Key(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.Has(httpapi.OperatorScope) {
		if scope := c.Lacks(scopesOf(old)); scope != "" {
			return nil, httpapi.NewProblem(api.CodeForbidden,
				"key %s has a scope that this key lacks: %s; rotate it with a key that has that scope", id, scope)
		}
	}
	var grace time.Duration
	if in != nil {
		grace = time.Duration(in.Grace) * time.Second
	}
	made, shown, err := t.RotateKey(ctx, id, grace)
	return keyAnswer(made, shown, err)
}
