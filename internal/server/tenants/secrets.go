package tenants

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Secrets serves the routes for a tenant's secrets, such as credentials for models and MCP servers.
// It never returns their values.
type Secrets struct{}

type (
	// SecretPath is embedded in inputs. It has the path parameter "secret".
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
			Secrets []api.Secret `json:"secrets" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// Routes registers the endpoints that manage secrets.
func (x *Secrets) Routes(rt *httpapi.Router) {
	const tag, one = "secrets", "/v1/secrets/{secret}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "put-secret",
		Method:  "PUT",
		Path:    one,
		Scope:   httpapi.SecretsWrite,
		Tag:     tag,
		Summary: "Set a secret",
	}, func(ctx context.Context, c *httpapi.Caller, in *putSecretInput) (*struct{}, error) {
		return nil, c.Tenant.SetSecret(ctx, in.Secret, []byte(in.Body.Value))
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-secrets",
		Method:  "GET",
		Path:    "/v1/secrets",
		Scope:   httpapi.SecretsWrite,
		Tag:     tag,
		Summary: "List secrets, without their values",
		About:   httpapi.AboutLists,
	}, x.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-secret",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.SecretsWrite,
		Tag:     tag,
		Summary: "Delete a secret",
	}, func(ctx context.Context, c *httpapi.Caller, in *SecretPath) (*struct{}, error) {
		return nil, c.Tenant.DeleteSecret(ctx, in.Secret)
	})
}

func (x *Secrets) list(
	ctx context.Context, c *httpapi.Caller, in *httpapi.LongListInput,
) (out *secretsOutput, err error) {
	out = &secretsOutput{}
	out.Body.Secrets, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListSecrets, c.Tenant.ID(), c.Tenant.Secrets, showSecret)
	return out, err
}

func showSecret(s *store.SecretInfo) api.Secret {
	return api.Secret{Name: s.Name, Updated: s.Updated.UTC()}
}
