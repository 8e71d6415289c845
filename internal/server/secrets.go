package server

import (
	"context"
	"time"
)

// secrets are a tenant's credentials: of models, of servers of tools. They come
// in and are never shown again.
type secrets struct{}

// A Secret is what is told of one.
type Secret struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated"`
}

type (
	// SecretPath is a part of inputs.
	SecretPath struct {
		Secret string `path:"secret" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" doc:"The secret's name, as used by api_key_env in agent.yaml, such as OPENAI_API_KEY."`
	}
	putSecretInput struct {
		SecretPath
		Body struct {
			Value string `json:"value" minLength:"1" maxLength:"65536" doc:"The secret's value. It is stored encrypted and never returned."`
		}
	}
	secretsOutput struct {
		Body struct {
			Secrets []Secret `json:"secrets" nullable:"false"`
			ListOutput
		}
	}
)

func (x *secrets) routes(s *Server) {
	const tag, one = "secrets", "/v1/secrets/{secret}"
	route(s, Route{ID: "put-secret", Method: "PUT", Path: one, Scope: SecretsWrite, Tag: tag, Summary: "Set a secret"},
		func(ctx context.Context, c *Caller, in *putSecretInput) (*struct{}, error) {
			return nil, c.Tenant.SetSecret(ctx, in.Secret, []byte(in.Body.Value))
		})
	route(s, Route{ID: "list-secrets", Method: "GET", Path: "/v1/secrets", Scope: SecretsWrite, Tag: tag, Summary: "List secrets, without their values", About: aboutLists}, x.list)
	route(s, Route{ID: "delete-secret", Method: "DELETE", Path: one, Scope: SecretsWrite, Tag: tag, Summary: "Delete a secret"},
		func(ctx context.Context, c *Caller, in *SecretPath) (*struct{}, error) {
			return nil, c.Tenant.DeleteSecret(ctx, in.Secret)
		})
}

func (x *secrets) list(ctx context.Context, c *Caller, in *LongListInput) (*secretsOutput, error) {
	page, err := in.page(listSecrets, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := c.Tenant.Secrets(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &secretsOutput{}
	out.Body.Secrets = []Secret{}
	out.Body.setNext(listSecrets, c.Tenant.ID(), next)
	for _, i := range list {
		out.Body.Secrets = append(out.Body.Secrets, Secret{i.Name, i.Updated.UTC()})
	}
	return out, nil
}
