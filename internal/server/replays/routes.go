package replays

import (
	"context"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options configure a [Service].
type Options struct {
	Store     store.Store
	Host      *host.Host
	Agents    *agents.Service
	Modules   *modules.Service
	Runs      *runs.Service
	Admission *admission.Controller
	Overload  *overload.Manager
	Logger    *slog.Logger
	// Workers is the number of replays that the server executes at once; at least 1.
	Workers int
	// RunTimeout limits the replay of one run. The default is 2 minutes.
	RunTimeout time.Duration
	// Draining is closed when the server begins to shut down.
	Draining <-chan struct{}
}

// A Service starts, executes and shows replays.
type Service struct {
	o      Options
	wake   chan struct{} // a replay was started here
	runs   *runs.Service
	agents *agents.Service
}

// New returns a service with the options.
func New(o *Options) *Service {
	s := &Service{o: *o, wake: make(chan struct{}, 1), runs: o.Runs, agents: o.Agents}
	s.o.Workers = max(1, o.Workers)
	if s.o.RunTimeout <= 0 {
		s.o.RunTimeout = runTimeout
	}
	return s
}

type (
	// Path is embedded in inputs. It has the path parameter "replay".
	Path struct {
		Replay string `path:"replay" pattern:"^rp_[a-z0-9]{1,40}$" doc:"The replay's id."`
	}
	startReplayInput struct {
		agents.AgentPath
		Body api.StartReplay
	}
	replayOutput struct{ Body *api.Replay }
	listInput    struct {
		agents.AgentPath
		httpapi.ListInput
	}
	listReplaysOutput struct {
		Body struct {
			Replays []*api.Replay `json:"replays" nullable:"false"`
			httpapi.ListOutput
		}
	}
	runsInput struct {
		Path
		Outcome string `query:"outcome" enum:"same,different,diverged,failed,skipped" doc:"Only runs with this outcome."`
		httpapi.ListInput
	}
	replayedRunsOutput struct {
		Body struct {
			Runs []api.ReplayedRun `json:"runs" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// Routes registers the endpoints of replays.
func (s *Service) Routes(rt *httpapi.Router) {
	const tag, all, one = "replays", "/v1/agents/{agent}/replays", "/v1/replays/{replay}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "start-replay",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Status:  202,
		Summary: "Replay stored runs with another version or module",
		About: `Replays the newest finished runs of the agent twice in the background: with their own modules, and with
the candidate. Models and tools give their recorded answers, and nothing outside is called. The result says for each run
what would differ. Erased answers and deleted modules prevent a replay; such runs are skipped, with the reason.`,
	}, s.start)
	rt.Raw(httpapi.Route{
		ID:      "dry-run",
		Method:  "POST",
		Path:    "/v1/runs/{run}/dry-run",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Body:    agentfile.MaxSize,
		Summary: "Replay a finished run with an agent file that is not stored",
		About: `The body is an agent.yaml file, as YAML or JSON. The server checks it, replays the run with its own agent and with
the file, and says what would differ. Models and tools give their recorded answers, and nothing outside is called. It
takes at most 30 s, and also needs the scope agents:write.`,
	}, describeDryRun, s.dryRun)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-replays",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the replays of an agent, newest first",
		About:   httpapi.AboutLists + " Replays are stored for 7 days after their end, and at most 20 ended ones of a tenant.",
	}, s.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-all-replays",
		Method:  "GET",
		Path:    "/v1/replays",
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "List the replays of all agents, newest first",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, c *httpapi.Caller, in *httpapi.ListInput) (*listReplaysOutput, error) {
		return s.list(ctx, c, &listInput{ListInput: *in})
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-replay",
		Method:  "GET",
		Path:    one,
		Scope:   httpapi.AgentsRead,
		Tag:     tag,
		Summary: "Show a replay and its progress",
	}, s.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-replayed-runs",
		Method:  "GET",
		Path:    one + "/runs",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Large:   true,
		Summary: "List the results of a replay",
		About:   httpapi.AboutLists + " While the replay is in progress, later results follow on later pages.",
	}, s.results)
	httpapi.Register(rt, httpapi.Route{
		ID:      "cancel-replay",
		Method:  "POST",
		Path:    one + "/cancel",
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Status:  202,
		Summary: "Cancel a replay",
		About:   "The replay ends after its current run. Its results so far remain.",
	}, s.cancel)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-replay",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.AgentsWrite,
		Tag:     tag,
		Summary: "Delete a replay that has ended",
	}, s.delete)
}

func (s *Service) list(
	ctx context.Context, c *httpapi.Caller, in *listInput,
) (out *listReplaysOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.Replay, *store.Position, error) {
		return c.Tenant.Replays(ctx, in.Agent, p)
	}
	list := httpapi.ListReplays + httpapi.ListName("/"+in.Agent)
	out = &listReplaysOutput{}
	out.Body.Replays, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, list, c.Tenant.ID(), read, show)
	return out, err
}

func (s *Service) get(ctx context.Context, c *httpapi.Caller, in *Path) (*replayOutput, error) {
	r, err := c.Tenant.Replay(ctx, in.Replay)
	if err != nil {
		return nil, err
	}
	return &replayOutput{show(r)}, nil
}

func (s *Service) results(ctx context.Context, c *httpapi.Caller, in *runsInput) (*replayedRunsOutput, error) {
	name := httpapi.ListReplayRuns + httpapi.ListName("/"+in.Replay+"/"+in.Outcome)
	page, err := in.Page(name, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := c.Tenant.ReplayRuns(ctx, in.Replay, in.Outcome, page)
	if err != nil {
		return nil, err
	}
	out := &replayedRunsOutput{}
	out.Body.Runs = []api.ReplayedRun{}
	out.Body.SetNext(name, c.Tenant.ID(), next)
	for i := range list {
		shown, err := showRun(&list[i])
		if err != nil {
			return nil, err
		}
		out.Body.Runs = append(out.Body.Runs, *shown)
	}
	return out, nil
}

func (s *Service) cancel(ctx context.Context, c *httpapi.Caller, in *Path) (*replayOutput, error) {
	r, err := c.Tenant.CancelReplay(ctx, in.Replay)
	if err != nil {
		return nil, err
	}
	return &replayOutput{show(r)}, nil
}

func (s *Service) delete(ctx context.Context, c *httpapi.Caller, in *Path) (*struct{}, error) {
	return nil, c.Tenant.DeleteReplay(ctx, in.Replay)
}
