package agents

import (
	"context"
	"log/slog"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

type (
	// AliasPath is embedded in inputs. It has the path parameter "alias".
	AliasPath struct {
		Alias string `path:"alias" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The alias's name. It is not a number."`
	}
	listAliasesInput struct {
		AgentPath
		httpapi.ListInput
	}
	aliasesOutput struct {
		Body struct {
			Aliases []*api.Alias `json:"aliases" nullable:"false"`
			httpapi.ListOutput
		}
	}
	setAliasInput struct {
		AgentPath
		AliasPath
		Body struct {
			Version int64  `json:"version" minimum:"1" doc:"The agent's version."`
			Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"Why the alias moves."`
		}
	}
	aliasOutput      struct{ Body *api.Alias }
	deleteAliasInput struct {
		AgentPath
		AliasPath
	}
	aliasMovesInput struct {
		AgentPath
		AliasPath
		httpapi.ListInput
	}
	aliasMovesOutput struct {
		Body struct {
			Moves []api.AliasMove `json:"moves" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// aliasRoutes registers the endpoints that manage aliases.
func (a *Service) aliasRoutes(rt *httpapi.Router) {
	const tag, all, one = "agents", "/v1/agents/{agent}/aliases", "/v1/agents/{agent}/aliases/{alias}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-aliases",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the aliases of an agent",
		About:   httpapi.AboutLists + " An agent has at most 50 aliases.",
	}, a.aliases)
	httpapi.Register(rt, httpapi.Route{
		ID:      "set-alias",
		Method:  "PUT",
		Path:    one,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Summary: "Set an alias of a version of an agent",
		About: `Runs of agent@alias that start afterwards use the version. The alias stable is the version of runs
that name only the agent. While a rollout moves the alias, the answer is 409.`,
	}, a.setAlias)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-alias",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Summary: "Delete an alias of an agent",
	}, a.deleteAlias)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-alias-moves",
		Method:  "GET",
		Path:    one + "/moves",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the moves of an alias, newest first",
		About:   httpapi.AboutLists + " The last 1,000 moves of an agent's aliases are stored.",
	}, a.aliasMoves)
}

func (a *Service) aliases(
	ctx context.Context, c *httpapi.Caller, in *listAliasesInput,
) (out *aliasesOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.Alias, *store.Position, error) {
		return c.Tenant.Aliases(ctx, in.Agent, p)
	}
	list := httpapi.ListAliases + httpapi.ListName("/"+in.Agent)
	out = &aliasesOutput{}
	out.Body.Aliases, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, list, c.Tenant.ID(), read, showAlias)
	return out, err
}

func showAlias(a *store.Alias) *api.Alias {
	return &api.Alias{Alias: a.Name, Version: a.Version, Updated: a.Updated.UTC()}
}

func (a *Service) setAlias(ctx context.Context, c *httpapi.Caller, in *setAliasInput) (*aliasOutput, error) {
	if !aliasName.MatchString(in.Alias) {
		return nil, httpapi.NewProblem(api.CodeInvalid,
			"the alias %.80q is a number, which would be a version; want a name such as stable", in.Alias)
	}
	set, err := c.Tenant.SetAlias(ctx, in.Agent, in.Alias, in.Body.Version, ChangeBy(c, in.Body.Reason))
	if err != nil {
		return nil, err
	}
	a.record(ctx, c, "alias set", in.Agent, in.Alias, in.Body.Version)
	return &aliasOutput{showAlias(set)}, nil
}

func (a *Service) deleteAlias(ctx context.Context, c *httpapi.Caller, in *deleteAliasInput) (*struct{}, error) {
	if err := c.Tenant.DeleteAlias(ctx, in.Agent, in.Alias, ChangeBy(c, "deleted")); err != nil {
		return nil, err
	}
	a.record(ctx, c, "alias deleted", in.Agent, in.Alias, 0)
	return nil, nil
}

func (a *Service) aliasMoves(
	ctx context.Context, c *httpapi.Caller, in *aliasMovesInput,
) (out *aliasMovesOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.AliasMove, *store.Position, error) {
		return c.Tenant.AliasMoves(ctx, in.Agent, in.Alias, p)
	}
	list := httpapi.ListAliasMoves + httpapi.ListName("/"+in.Agent+"/"+in.Alias)
	out = &aliasMovesOutput{}
	out.Body.Moves, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, list, c.Tenant.ID(), read, showMove)
	return out, err
}

func showMove(m *store.AliasMove) api.AliasMove {
	return api.AliasMove{Alias: m.Alias, From: m.From, To: m.To, By: m.By, Reason: m.Reason, Created: m.Created.UTC()}
}

// ChangeBy returns the change of an alias that a caller makes.
func ChangeBy(c *httpapi.Caller, reason string) store.AliasChange {
	return store.AliasChange{By: c.By(), Reason: reason}
}

// record logs the change of an alias and the caller that made it. The store also records the move.
func (a *Service) record(ctx context.Context, c *httpapi.Caller, what, agent, alias string, version int64) {
	a.Options.Logger.InfoContext(ctx, what, slog.String("tenant", c.Tenant.ID()), slog.String("by", c.By()),
		slog.String("agent", agent), slog.String("alias", alias), slog.Int64("version", version))
}
