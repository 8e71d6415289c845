package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// keys are those of tenants: the operator's to give, and the tenants' own.
type keys struct{ store store.Store }

// A Key is one as the API shows it. Its secret is shown once, in Secret.
type Key struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant" doc:"The tenant that owns the key."`
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes" nullable:"false"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Used    *time.Time `json:"used,omitempty" doc:"The time of the last use, with a resolution of one minute."`
	Secret  string     `json:"secret,omitempty" doc:"The key itself. It is returned only once: the server does not store it."`
}

func showKey(k *store.Key) *Key {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return &Key{ID: k.ID, Tenant: k.Tenant, Name: k.Name, Scopes: k.Scopes, Created: k.Created.UTC(), Expires: at(k.Expires), Revoked: at(k.Revoked), Used: at(k.Used)}
}

type (
	// KeyPath is a part of inputs.
	KeyPath struct {
		Key string `path:"key" pattern:"^[a-z2-7]{10}$" doc:"The key's id: the part between ar_ and the next underscore."`
	}
	keyOutput  struct{ Body *Key }
	keysOutput struct {
		Body struct {
			Keys []*Key `json:"keys" nullable:"false"`
			ListOutput
		}
	}
	newKeyBody struct {
		Name      string   `json:"name" minLength:"1" maxLength:"200" example:"ci" doc:"The purpose of the key."`
		Scopes    []string `json:"scopes,omitempty" maxItems:"20" doc:"The key's scopes. Default: all scopes of the tenant; for a key that a tenant creates, the scopes of the creating key."`
		ExpiresIn int64    `json:"expires_in,omitempty" minimum:"1" maximum:"315360000" doc:"Seconds until it expires. Default: never."`
	}
	rotateBody struct {
		Grace int64 `json:"grace,omitempty" minimum:"0" maximum:"2592000" doc:"Seconds for which the old key remains valid. Default: 0."`
	}
	listTenantKeysInput struct {
		TenantPath
		LongListInput
	}
	createKeyInput       struct{ Body newKeyBody }
	createTenantKeyInput struct {
		TenantPath
		Body newKeyBody
	}
	// TenantKeyPath is a part of inputs.
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

func (k *keys) routes(s *Server) {
	const tag, one, of, all = "keys", "/v1/keys/{key}", "/v1/tenants/{tenant}/keys/{key}", "/v1/tenants/{tenant}/keys"
	route(s, Route{ID: "create-key", Method: "POST", Path: "/v1/keys", Scope: KeysWrite, Tag: tag, Status: 201, Summary: "Create a key for your tenant"},
		func(ctx context.Context, c *Caller, in *createKeyInput) (*keyOutput, error) {
			return k.create(ctx, c, c.Tenant, c.Key.Scopes, &in.Body)
		})
	route(s, Route{ID: "list-keys", Method: "GET", Path: "/v1/keys", Scope: KeysRead, Tag: tag, Summary: "List your tenant's keys, newest first", About: aboutLists},
		func(ctx context.Context, c *Caller, in *LongListInput) (*keysOutput, error) {
			return k.list(ctx, c.Tenant, in)
		})
	route(s, Route{ID: "rotate-key", Method: "POST", Path: one + "/rotate", Scope: KeysWrite, Tag: tag, Status: 201, Summary: "Replace a key"},
		func(ctx context.Context, c *Caller, in *rotateKeyInput) (*keyOutput, error) {
			return k.rotate(ctx, c, c.Tenant, in.Key, in.Body)
		})
	route(s, Route{ID: "revoke-key", Method: "DELETE", Path: one, Scope: KeysWrite, Tag: tag, Summary: "Revoke a key"},
		func(ctx context.Context, c *Caller, in *KeyPath) (*struct{}, error) {
			return nil, c.Tenant.RevokeKey(ctx, in.Key)
		})
	route(s, Route{ID: "create-tenant-key", Method: "POST", Path: all, Scope: OperatorScope, Tag: tag, Status: 201, Summary: "Create a key for a tenant"},
		func(ctx context.Context, c *Caller, in *createTenantKeyInput) (*keyOutput, error) {
			return k.create(ctx, c, k.store.Tenant(in.Tenant), texts(TenantScopes), &in.Body)
		})
	route(s, Route{ID: "list-tenant-keys", Method: "GET", Path: all, Scope: OperatorScope, Tag: tag, Summary: "List a tenant's keys, newest first", About: aboutLists},
		func(ctx context.Context, _ *Caller, in *listTenantKeysInput) (*keysOutput, error) {
			if _, err := k.store.TenantInfo(ctx, in.Tenant); err != nil {
				return nil, err
			}
			return k.list(ctx, k.store.Tenant(in.Tenant), &in.LongListInput)
		})
	route(s, Route{ID: "rotate-tenant-key", Method: "POST", Path: of + "/rotate", Scope: OperatorScope, Tag: tag, Status: 201, Summary: "Replace a tenant's key"},
		func(ctx context.Context, c *Caller, in *rotateTenantKeyInput) (*keyOutput, error) {
			return k.rotate(ctx, c, k.store.Tenant(in.Tenant), in.Key, in.Body)
		})
	route(s, Route{ID: "revoke-tenant-key", Method: "DELETE", Path: of, Scope: OperatorScope, Tag: tag, Summary: "Revoke a tenant's key"},
		func(ctx context.Context, _ *Caller, in *TenantKeyPath) (*struct{}, error) {
			return nil, k.store.Tenant(in.Tenant).RevokeKey(ctx, in.Key)
		})
}

// create makes a key with some of the scopes that may be given.
func (k *keys) create(ctx context.Context, _ *Caller, t *store.Tenant, may []string, in *newKeyBody) (*keyOutput, error) {
	scopes := in.Scopes
	if len(scopes) == 0 {
		scopes = may
	}
	for _, scope := range scopes {
		if !slices.Contains(may, scope) {
			return nil, problem(codeForbidden, "scope %q cannot be granted here; want one of %s", scope, strings.Join(may, ", "))
		}
	}
	made, shown, err := t.CreateKey(ctx, &store.KeyOptions{Name: in.Name, Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))),
		TTL: time.Duration(in.ExpiresIn) * time.Second})
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

func (k *keys) list(ctx context.Context, t *store.Tenant, in *LongListInput) (*keysOutput, error) {
	page, err := in.page(listKeys, t.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := t.Keys(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{}
	out.Body.Keys = []*Key{}
	out.Body.setNext(listKeys, t.ID(), next)
	for i := range list {
		out.Body.Keys = append(out.Body.Keys, showKey(&list[i]))
	}
	return out, nil
}

// rotate replaces a key. Nobody gets scopes by it that they do not have: the
// new key would show its secret to a caller who may do less than it.
func (k *keys) rotate(ctx context.Context, c *Caller, t *store.Tenant, id string, in *rotateBody) (*keyOutput, error) {
	old, err := t.Key(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.Has(OperatorScope) {
		for _, scope := range old.Scopes {
			if !c.Has(Scope(scope)) {
				return nil, problem(codeForbidden, "key %s has a scope that this key lacks: %s; rotate it with a key that has that scope", id, scope)
			}
		}
	}
	var grace time.Duration
	if in != nil {
		grace = time.Duration(in.Grace) * time.Second
	}
	made, shown, err := t.RotateKey(ctx, id, grace)
	return keyAnswer(made, shown, err)
}
