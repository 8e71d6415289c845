package tokens

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Tokens serves the routes for tokens of end users.
type Tokens struct {
	Currency string // of quotas of costs; empty if the server has no prices
}

const (
	tokenTTL         = 15 * time.Minute // the default
	maxTokenMetadata = 4 << 10          // bytes of JSON
)

type (
	// TokenPath is embedded in inputs. It has the path parameter "token".
	TokenPath struct {
		Token string `path:"token" pattern:"^[a-z2-7]{10}$" doc:"The token's id: the part between art_ and the next underscore."`
	}
	createTokenInput struct{ Body api.CreateToken }
	tokenOutput      struct{ Body *api.Token }
	listTokensInput  struct {
		Subject string `query:"subject" maxLength:"200" doc:"Only tokens of this end user."`
		httpapi.ListInput
	}
	listTokensOutput struct {
		Body struct {
			Tokens []*api.Token `json:"tokens" nullable:"false"`
			httpapi.ListOutput
		}
	}
	deleteTokensInput struct {
		Subject string `query:"subject" required:"true" minLength:"1" maxLength:"200" doc:"The end user."`
	}
	deleteTokensOutput struct{ Body api.DeletedTokens }
)

// Routes registers the endpoints that manage tokens.
func (x *Tokens) Routes(rt *httpapi.Router) {
	const tag, all = "tokens", "/v1/tokens"
	httpapi.Register(rt, httpapi.Route{
		ID:      "create-token",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.TokensWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Create a token for an end user",
		About: `For the tenant's back end, which has an API key. A browser sends the token as Authorization: Bearer art_… and
has access only to the agents of the token, and to the runs and threads of its subject. docs/identity.md lists the
operations.
A subject has at most 50 tokens: the oldest are deleted.`,
	}, x.create)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-tokens",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.TokensWrite,
		Tag:     tag,
		Summary: "List tokens of end users, newest first",
		About:   "Expired tokens stay for an hour.\n\n" + httpapi.AboutLists,
	}, x.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-tokens",
		Method:  "DELETE",
		Path:    all,
		Scope:   httpapi.TokensWrite,
		Tag:     tag,
		Summary: "Delete the tokens of an end user",
		About: `They give no access from then on. Their requests in flight end within seconds, as if the client disconnected.
Runs that they started with POST /v1/runs go on: cancel them with a key.`,
	}, func(ctx context.Context, c *httpapi.Caller, in *deleteTokensInput) (*deleteTokensOutput, error) {
		n, err := c.Tenant.DeleteTokens(ctx, in.Subject)
		return &deleteTokensOutput{api.DeletedTokens{Deleted: n}}, err
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-token",
		Method:  "DELETE",
		Path:    all + "/{token}",
		Scope:   httpapi.TokensWrite,
		Tag:     tag,
		Summary: "Delete a token",
		About: `It gives no access from then on. Its requests in flight end within seconds, as if the client disconnected.
Runs that it started with POST /v1/runs go on: cancel them with a key.`,
	}, func(ctx context.Context, c *httpapi.Caller, in *TokenPath) (*struct{}, error) {
		return nil, c.Tenant.DeleteToken(ctx, in.Token)
	})
}

// create creates a token. The caller must have an API key with the scopes that the token gives. The
// token is valid only as long as this key.
func (x *Tokens) create(ctx context.Context, c *httpapi.Caller, in *createTokenInput) (*tokenOutput, error) {
	b := &in.Body
	switch {
	case c.Tenant.ID() == store.Operator:
		return nil, httpapi.NewProblem(api.CodeForbidden, "tokens are for the end users of tenants, and the operator is none")
	case c.Key.ID == "":
		return nil, httpapi.NewProblem(
			api.CodeForbidden,
			"tokens are created with an API key; send one of the tenant's back end",
		)
	case b.Quota.Cost > 0 && x.Currency == "":
		return nil, httpapi.NewProblem(api.CodeInvalid, "quota.cost has no effect: the server has no prices")
	case b.Thread != "" && b.Threads:
		return nil, httpapi.NewProblem(api.CodeInvalid, "want either thread or threads")
	case strings.ContainsFunc(b.Subject, unicode.IsControl):
		return nil, httpapi.NewProblem(api.CodeInvalid, "subject has control characters")
	}
	if err := requireFor(c, b); err != nil {
		return nil, err
	}
	refs, err := agentRefs(ctx, c, b.Agents)
	if err != nil {
		return nil, err
	}
	k := &store.Token{
		Issuer: c.Key.ID, Subject: b.Subject, Agents: refs, Thread: b.Thread, Threads: b.Threads, Answers: b.Answers,
		Limits: store.TokenUsage{Runs: b.Quota.Runs, Tokens: b.Quota.Tokens, CostNano: int64(b.Quota.Cost * price.Nano)},
	}
	if len(b.Metadata) > 0 {
		if k.Metadata, err = json.Marshal(b.Metadata); err != nil {
			return nil, err
		}
		if len(k.Metadata) > maxTokenMetadata {
			return nil, httpapi.NewProblem(
				api.CodeInvalid,
				"metadata has %d bytes; at most %d are allowed",
				len(k.Metadata),
				maxTokenMetadata,
			)
		}
	}
	ttl := tokenTTL
	if b.ExpiresIn > 0 {
		ttl = time.Duration(b.ExpiresIn) * time.Second
	}
	made, shown, err := c.Tenant.CreateToken(ctx, k, ttl)
	if err != nil {
		return nil, err
	}
	out := showToken(made)
	out.Secret = shown
	return &tokenOutput{out}, nil
}

// requireFor fails if the caller lacks a scope that the token would give.
func requireFor(c *httpapi.Caller, b *api.CreateToken) error {
	needs := []httpapi.Scope{httpapi.RunsRead, httpapi.RunsWrite}
	if b.Answers {
		needs = append(needs, httpapi.RunsApprove)
	}
	for _, s := range needs {
		if err := c.Require(s); err != nil {
			return err
		}
	}
	return nil
}

// agentRefs returns references to agents that exist, in the form with which requests are compared.
func agentRefs(ctx context.Context, c *httpapi.Caller, list []string) (out []string, err error) {
	for _, text := range list {
		ref, err := agents.ParseRef(text, 0)
		if err != nil {
			return nil, err
		}
		if !store.Name.MatchString(ref.Name) {
			return nil, httpapi.NewProblem(api.CodeInvalid, "agents has %.80q, which is no name of an agent", text)
		}
		if _, err := c.Tenant.AgentOf(ctx, ref.AgentRef); err != nil {
			return nil, err
		}
		out = append(out, ref.String())
	}
	return slices.Compact(slices.Sorted(slices.Values(out))), nil
}

func (*Tokens) list(
	ctx context.Context, c *httpapi.Caller, in *listTokensInput,
) (out *listTokensOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.Token, *store.Position, error) {
		return c.Tenant.Tokens(ctx, in.Subject, p)
	}
	out = &listTokensOutput{}
	out.Body.Tokens, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListTokens, c.Tenant.ID(), read, showToken)
	return out, err
}

func showToken(k *store.Token) *api.Token {
	quota := func(u store.TokenUsage) api.TokenQuota {
		return api.TokenQuota{Runs: u.Runs, Tokens: u.Tokens, Cost: float64(u.CostNano) / price.Nano}
	}
	out := &api.Token{
		ID:      k.ID,
		Subject: k.Subject,
		Agents:  k.Agents,
		Thread:  k.Thread,
		Threads: k.Threads,
		Answers: k.Answers,
		Quota:   quota(k.Limits),
		Used:    quota(k.Used),
		Key:     k.Issuer,
		Created: k.Created.UTC(),
		Expires: k.Expires.UTC(),
	}
	_ = json.Unmarshal(k.Metadata, &out.Metadata) // empty if there is none
	return out
}
