package runs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Service executes and serves the runs of tenants.
type Service struct {
	options         *Options
	store           store.Store
	log             *slog.Logger
	admission       *admission.Controller
	blocks          *blocks.List
	memory          *memory
	Active          *activeRuns
	polls           *polls
	Agents          AgentSource
	waiting         waitingRuns   // runs that the last search for runs to take over found
	taking          sync.Map      // tenants whose runs are being taken over
	failedTakeovers sync.Map      // by run id, the time of the first failed takeover
	held            sync.Map      // ids of waiting runs that Judge did not allow to resume here
	freed           chan struct{} // receives a value when a run of a thread ends here
	left            chan struct{} // receives a value when there may be more runs to take over
	released        atomic.Int64  // number of runs that were released to the journal
}

// Options configure a [Service].
type Options struct {
	Store     store.Store
	Agents    AgentSource
	Admission *admission.Controller
	Overload  *overload.Manager
	Blocks    *blocks.List
	Logger    *slog.Logger
	Now       func() time.Time
	Timeouts  *httpapi.Timeouts
	// Currency is the currency of the costs of runs, such as USD; empty if runs have no costs.
	Currency string
	// Owner and LeaseTTL are the server's options of the same names.
	Owner    string
	LeaseTTL time.Duration
	// Judge reports whether a run whose server has ended may be resumed.
	Judge func(ctx context.Context, info *journal.RunInfo) (resume bool, err error)
	// Draining is closed when the server begins to shut down.
	Draining <-chan struct{}
	// Hints reach the other servers of the database.
	Hints hints.Bus
	// Servers returns the owners of all servers that resume runs, this one included; nil or empty for a
	// server that knows of no others. A server resumes its share of the runs of a server that has ended
	// at once, and the others' shares a moment later; see [AgentSource.Ready].
	Servers func() []string
	// Go runs fn on a goroutine that the server waits for when it shuts down.
	Go func(fn func())
}

// New returns a service with the options.
func New(o *Options) *Service {
	r := &Service{
		options:   o,
		memory:    newMemory(account.Process()),
		store:     o.Store,
		log:       o.Logger,
		admission: o.Admission,
		blocks:    o.Blocks,
		freed:     make(chan struct{}, 1),
		left:      make(chan struct{}, 1),
		polls:     newPolls(o.Hints, o.Logger),
		Agents:    o.Agents,
	}
	r.Active = newActiveRuns(r.newBroadcast)
	return r
}

// Count returns the number of runs in progress here.
func (r *Service) Count() int { return r.Active.Count() }

// HandedBack returns the number of runs that this process released to the journal for other
// servers.
func (r *Service) HandedBack() int64 { return r.released.Load() }

// InProgress reports whether a run of a tenant is in progress here.
func (r *Service) InProgress(tenant, id string) bool { return r.Active.Get(tenant, id) != nil }

// An AgentSource provides the agents of runs.
type AgentSource interface {
	// Open returns the agent of a spec. The caller releases it when its run is over.
	Open(ctx context.Context, t *store.Tenant, spec agents.Spec) (*agents.Handle, error)
	// Ready reports whether the modules of a run are compiled on this server. Servers on which they are
	// not leave a waiting run to the others for a moment.
	Ready(modules []journal.Pin) bool
}

// Routes registers the endpoints that start, show and control runs.
func (r *Service) Routes(rt *httpapi.Router) {
	const tag = "runs"
	rt.Raw(httpapi.Route{
		ID:      "create-run",
		Method:  "POST",
		Path:    "/v1/runs",
		Scope:   httpapi.RunsWrite,
		Or:      httpapi.RunsApprove,
		Tag:     tag,
		Status:  202,
		Body:    8 << 20,
		Input:   true,
		Summary: "Start a run, or resume a paused one",
		About:   "Returns the run immediately, or, with Accept: text/event-stream, a stream of its events. With an Idempotency-Key, repeating the request starts no second run.",
	}, describeStart, r.start)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-runs",
		Method:  "GET",
		Path:    "/v1/runs",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "List runs, newest first",
		About:   aboutList,
	}, r.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-run",
		Method:  "GET",
		Path:    "/v1/runs/{run}",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Control: true,
		Summary: "Show a run",
	}, r.get)
	rt.Raw(httpapi.Route{
		ID:      "run-events",
		Method:  "GET",
		Path:    "/v1/runs/{run}/events",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "Get the events of a run",
		About:   "With Accept: text/event-stream, returns a stream of the events after Last-Event-ID until the run ends or pauses. Otherwise returns a page of JSON.",
	}, describeEvents, r.events)
	httpapi.Register(
		rt,
		httpapi.Route{
			ID:      "run-history",
			Method:  "GET",
			Path:    "/v1/runs/{run}/history",
			Scope:   httpapi.RunsRead,
			Tag:     tag,
			Large:   true,
			Summary: "Get the history of a run",
			About:   "The run's messages, and for each phase the answers and changes of hooks, the decisions of gates and the results of tools.",
		},
		r.history,
	)
	rt.Raw(httpapi.Route{
		ID:      "run-trace",
		Method:  "GET",
		Path:    "/v1/runs/{run}/trace",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "Get the timeline of a run",
		About:   "The run's hooks, model calls and tool calls as nested spans, with time, fuel and failures. Available once the run has ended or paused.",
	}, describeTrace, r.trace)
	httpapi.Register(rt, httpapi.Route{
		ID:      "cancel-run",
		Method:  "POST",
		Path:    "/v1/runs/{run}/cancel",
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Control: true,
		Status:  202,
		Summary: "Cancel a run",
		About:   "An active run ends within a second, and its modules are notified. Custom events and log lines that are not persisted by then are dropped.",
	}, r.cancel)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-run",
		Method:  "DELETE",
		Path:    "/v1/runs/{run}",
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Summary: "Delete a run that has ended or is paused",
	}, r.delete)
}

// Find returns a run that the caller may see; see [httpapi.Caller.Run]. A run of its tenant that is in progress here
// but not in the store yet has the status "queued"; callers with the token of an end user do not see it.
func (r *Service) Find(ctx context.Context, c *httpapi.Caller, id string) (*journal.RunInfo, error) {
	t := c.Tenant
	info, err := c.Run(ctx, id)
	if l := r.Active.Get(t.ID(), id); errors.Is(err, journal.ErrNoRun) && l != nil && c.Token == nil {
		// The store will have the same modules, so redaction is the same from the first event.
		return &journal.RunInfo{
			ID:       id,
			Tenant:   t.ID(),
			Progress: journal.Progress{Status: "queued"},
			Modules:  l.Pins,
			Created:  time.Now(),
			Updated:  time.Now(),
		}, nil
	}
	return info, err
}

type (
	runPath struct {
		Run string `path:"run" pattern:"^run_[A-Za-z0-9_-]{1,80}$" doc:"The run's id."`
	}
	runOutput struct{ Body *api.Run }
)

func (r *Service) get(ctx context.Context, c *httpapi.Caller, in *runPath) (*runOutput, error) {
	info, err := r.Find(ctx, c, in.Run)
	if err != nil {
		return nil, err
	}
	shown, err := r.showDetails(ctx, c, info)
	return &runOutput{shown}, err
}

func (r *Service) delete(ctx context.Context, c *httpapi.Caller, in *runPath) (*struct{}, error) {
	return nil, c.Tenant.DeleteRun(ctx, in.Run)
}
