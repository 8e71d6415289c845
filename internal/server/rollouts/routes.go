package rollouts

import (
	"context"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options configure a [Service].
type Options struct {
	Store  store.Store
	Blocks *blocks.List
	Logger *slog.Logger
	// Currency is the currency of the costs of runs, such as USD; empty if runs have no costs.
	Currency string
	// Now returns the time. The default is the clock of the database, which all servers share.
	Now func(context.Context) (time.Time, error)
}

// A Service starts, checks and shows rollouts.
type Service struct{ o Options }

// New returns a service with the options.
func New(o *Options) *Service {
	s := &Service{*o}
	if s.o.Now == nil {
		s.o.Now = o.Store.Now
	}
	return s
}

type (
	// Path is embedded in inputs. It has the path parameter "rollout".
	Path struct {
		Rollout string `path:"rollout" pattern:"^ro_[a-z0-9]{1,40}$" doc:"The rollout's id."`
	}
	startRolloutInput struct {
		agents.AgentPath
		Body api.StartRollout
	}
	rolloutOutput struct{ Body *api.Rollout }
	listInput     struct {
		agents.AgentPath
		httpapi.ListInput
	}
	listRolloutsOutput struct {
		Body struct {
			Rollouts []api.Rollout `json:"rollouts" nullable:"false"`
			httpapi.ListOutput
		}
	}
	rolloutHistoryOutput struct{ Body *api.RolloutHistory }
	changeRolloutInput   struct {
		Path
		Body struct {
			Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why the rollout changes."`
		}
	}
)

// Routes registers the endpoints of rollouts.
func (s *Service) Routes(rt *httpapi.Router) {
	const tag, all, one = "rollouts", "/v1/agents/{agent}/rollouts", "/v1/rollouts/{rollout}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "start-rollout",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Roll out a version of an agent to an alias",
		About: `A growing percentage of the runs of the alias get the version. The server compares the two versions, and
rolls back if the new one is worse; see docs/rollouts.md. The alias moves when the rollout is promoted.`,
	}, s.start)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-rollouts",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the rollouts of an agent, newest first",
		About:   httpapi.AboutLists + " The last 50 ended rollouts of an agent are stored.",
	}, s.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-active-rollouts",
		Method:  "GET",
		Path:    "/v1/rollouts",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the active rollouts of all agents, newest first",
		About:   httpapi.AboutLists + " The rollouts that have ended are in the lists of their agents.",
	}, func(ctx context.Context, c *httpapi.Caller, in *httpapi.ListInput) (*listRolloutsOutput, error) {
		return s.list(ctx, c, &listInput{ListInput: *in})
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-rollout",
		Method:  "GET",
		Path:    one,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show a rollout with its figures",
	}, s.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "rollout-history",
		Method:  "GET",
		Path:    one + "/history",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Get the figures of a rollout over time",
		About:   "The newest 5,000 finished runs of each version, in at most 200 periods of equal length.",
	}, s.history)
	for what, summary := range map[string]string{
		"pause":   "Pause the steps of a rollout, which keeps its percentage",
		"resume":  "Resume a paused rollout",
		"promote": "Move the alias to the canary at once, and end the rollout",
		"abort":   "End a rollout; all runs get the stable version again",
	} {
		httpapi.Register(rt, httpapi.Route{
			ID:      what + "-rollout",
			Method:  "POST",
			Path:    one + "/" + what,
			Scope:   httpapi.AgentsWrite,
			Tag:     tag,
			Summary: summary,
			About:   "If the rollout has ended, the answer is 409.",
		}, func(ctx context.Context, c *httpapi.Caller, in *changeRolloutInput) (*rolloutOutput, error) {
			return s.change(ctx, c, in, what)
		})
	}
}

// list lists the rollouts of an agent, or the active ones of all agents if the input names none.
func (s *Service) list(ctx context.Context, c *httpapi.Caller, in *listInput) (*listRolloutsOutput, error) {
	name := httpapi.ListRollouts + httpapi.ListName("/"+in.Agent)
	page, err := in.Page(name, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	var list []store.Rollout
	var next *store.Position
	if in.Agent == "" {
		list, next, err = c.Tenant.ActiveRollouts(ctx, page)
	} else {
		list, next, err = c.Tenant.Rollouts(ctx, in.Agent, page)
	}
	if err != nil {
		return nil, err
	}
	out := &listRolloutsOutput{}
	out.Body.Rollouts = []api.Rollout{}
	out.Body.SetNext(name, c.Tenant.ID(), next)
	for i := range list {
		shown, err := s.show(&list[i])
		if err != nil {
			return nil, err
		}
		out.Body.Rollouts = append(out.Body.Rollouts, *shown)
	}
	return out, nil
}

func (s *Service) get(ctx context.Context, c *httpapi.Caller, in *Path) (*rolloutOutput, error) {
	r, err := c.Tenant.Rollout(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	return s.output(ctx, c.Tenant, r)
}

// output returns a rollout with its current figures.
func (s *Service) output(ctx context.Context, t *store.Tenant, r *store.Rollout) (*rolloutOutput, error) {
	shown, err := s.show(r)
	if err != nil || !r.Active() {
		return &rolloutOutput{shown}, err
	}
	now, err := s.o.Now(ctx)
	if err != nil {
		return nil, err
	}
	stable, canary, err := bothArms(func(arm store.Arm, limit int) ([]store.RolloutRun, error) {
		return t.RolloutRuns(ctx, r.ID, arm, limit)
	})
	if err != nil {
		return nil, err
	}
	a, b := compared(&shown.Plan.Rollback, now, stable, canary)
	shown.Figures = figures(a, b)
	return &rolloutOutput{shown}, nil
}
