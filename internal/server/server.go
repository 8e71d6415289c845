package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/cluster"
	"github.com/agent-runner/agent-runner/internal/server/console"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/server/quarantine"
	"github.com/agent-runner/agent-runner/internal/server/replays"
	"github.com/agent-runner/agent-runner/internal/server/rollouts"
	"github.com/agent-runner/agent-runner/internal/server/routes"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/signin"
	"github.com/agent-runner/agent-runner/internal/server/tenants"
	"github.com/agent-runner/agent-runner/internal/server/threads"
	"github.com/agent-runner/agent-runner/internal/server/tokens"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options configure a [Server]. Store and Host are required.
type Options struct {
	// Store holds all data. The caller closes it after the server.
	Store store.Store
	// Host loads modules and runs agents. The caller closes it after the server.
	Host *host.Host
	// Logger logs requests and errors. By default, nothing is logged.
	Logger *slog.Logger
	// Version is the program's version, for the OpenAPI document.
	Version string
	// MaxUpload is the size limit of modules in bytes. The default is 16 MiB. A tenant's quota may
	// be lower.
	MaxUpload int64
	// DrainTime limits the time in which requests and runs end at shutdown. The default is 30 s.
	DrainTime time.Duration
	// Owner names this process in the runs that it executes. Without it, the server stores no
	// heartbeats. Gone reports whether another process has certainly ended; see [journal.Options].
	Owner string
	Gone  func(owner string) bool
	// CrashReports has the crash reports of earlier processes of this machine, by the processes' owners.
	// The value is the run that the report names, or empty. Optional.
	CrashReports map[string]string
	// LeaseTTL is the time after a server's last heartbeat at which its leases expire and other
	// servers take over its runs. The default is [journal.DefaultLeaseTTL].
	LeaseTTL time.Duration
	// Getenv returns the operator's model settings, OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY and
	// ANTHROPIC_BASE_URL. Tenants may use these models if their policy lists allowed models. By default,
	// there are no such models.
	Getenv func(name string) string
	// Model replaces the operator's model, for example with a recording.
	Model model.Model
	// Private lists the ranges of private addresses that agents may connect to. The default is
	// none.
	Private []netip.Prefix
	// Originals makes the journal store messages and recorded answers as they were before modules
	// changed them; see [journal.Options].
	Originals bool
	// Commands starts the MCP servers of agents whose files give a command instead of a URL. Only
	// agents of the operator's tenant may do so. By default, agents start no programs.
	Commands agents.Commands
	// Tracer records the operations of runs. It may be nil.
	Tracer tracing.Tracer
	// Hints reach the other servers of the store. By default, there are none, and servers notice each
	// other's changes when they next poll the store. The caller closes the bus after the server.
	Hints hints.Bus
	// Processors is the number of processors that long work, such as guests and large bodies, may
	// use at once. The default is GOMAXPROCS. With a lower number, short requests wait less for
	// long ones.
	Processors int
	// Memory limits the memory of the process, in bytes, in addition to the limits of the system.
	// By default, only the limits of the system apply.
	Memory int64
	// TuneGC lets the server set the Go runtime's memory limit.
	TuneGC bool
	// Currency is the currency of the costs that Store counts, such as USD. If it is empty, responses
	// have no costs.
	Currency string
	// SignIn is the identity provider with which people sign in. By default, there is none, and only
	// API keys give access.
	SignIn *signin.Options
	// Now returns the time. The default is [time.Now].
	Now func() time.Time
}

// A Server is an [http.Handler] for the platform. [New] creates one.
type Server struct {
	options  Options
	log      *slog.Logger
	timeouts *httpapi.Timeouts

	router     *httpapi.Router
	admission  *admission.Controller
	overload   *overload.Manager
	blocks     *blocks.List
	modules    *modules.Service
	agents     *agents.Service
	pool       *agents.Pool
	runs       *runs.Service
	routes     *routes.Service
	replays    *replays.Service
	signIn     *signin.Service // nil without an identity provider
	rollouts   *rollouts.Service
	threads    *threads.Threads
	quarantine *quarantine.Service
	members    *cluster.Members // the servers of the store; nil for a single one
	metrics    *metrics
	dropped    atomic.Int64 // events of stopped runs that were not persisted

	draining  chan struct{}
	drainOnce sync.Once
	aborted   chan struct{} // closed when the drain time is over
	abort     sync.Once
	work      sync.WaitGroup
}

// New returns a server. [Server.Serve], or another HTTP server, serves its requests. Only Serve also runs
// the background tasks. New fails if Store or Host is nil, or if SignIn is invalid.
func New(o *Options) (*Server, error) {
	if o == nil || o.Store == nil || o.Host == nil {
		return nil, errors.New("a server needs a store and a host")
	}
	s := &Server{
		options:  *o,
		log:      o.Logger,
		timeouts: httpapi.DefaultTimeouts(),
		draining: make(chan struct{}),
		aborted:  make(chan struct{}),
	}
	s.setDefaults()
	s.admission = admission.New(s.options.Processors, s.options.Now, s.draining)
	s.overload = newOverload(s)
	var err error
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, err
	}
	s.newServices()
	var people httpapi.People // not a nil *signin.Service
	if o.SignIn != nil {
		if s.signIn, err = signin.New(o.SignIn, o.Store, s.options.Now); err != nil {
			return nil, fmt.Errorf("sign-in: %w", err)
		}
		people = s.signIn
	}
	s.router = httpapi.NewRouter(&httpapi.RouterOptions{
		Store:     o.Store,
		Admission: s.admission,
		Overload:  s.overload,
		Logger:    s.log,
		Now:       s.options.Now,
		Timeouts:  s.timeouts,
		People:    people,
		Observe:   s.metrics.note,
		Version:   s.options.Version,
	})
	for _, r := range []interface{ Routes(*httpapi.Router) }{
		newHealth(o.Store, s.draining),
		&tenants.Tenants{Store: o.Store, Timeouts: s.timeouts, Runs: s.runs},
		&tenants.Keys{Store: o.Store},
		&tokens.Tokens{Currency: o.Currency},
		&tokens.CORS{Store: o.Store},
		s.signIn,
		&tenants.Members{Store: o.Store, Issuer: s.signIn.Issuer()},
		&tenants.Groups{Store: o.Store},
		&tenants.Audit{Store: o.Store, Admission: s.admission, Timeouts: s.timeouts},
		s.blocks,
		&tenants.Usages{Store: o.Store, Now: s.options.Now, Currency: o.Currency},
		&tenants.Series{Store: o.Store, Now: s.options.Now, Currency: o.Currency},
		s.modules,
		s.agents,
		&tenants.Secrets{},
		s.runs,
		s.replays,
		s.rollouts,
		s.threads,
		s.quarantine,
		s.members,
		s.routes,
		&gateway.Models{Runs: s.runs, Routed: s.routes, Admission: s.admission, Timeouts: s.timeouts},
		&gateway.AGUI{Runs: s.runs, Admission: s.admission, Timeouts: s.timeouts},
		s.metrics,
	} {
		r.Routes(s.router)
	}
	s.router.Finish()
	console.Mount(s.router.Handle)
	return s, nil
}

// setDefaults sets the defaults of missing options.
func (s *Server) setDefaults() {
	o := &s.options
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxUpload = cmp.Or(o.MaxUpload, 16<<20)
	o.DrainTime = cmp.Or(o.DrainTime, 30*time.Second)
	o.Processors = cmp.Or(o.Processors, runtime.GOMAXPROCS(0))
	o.Version = cmp.Or(o.Version, "devel")
	if o.Hints == nil {
		o.Hints = hints.None{}
	}
}

// newServices creates the services that implement the routes. Each depends on those before it. The runs
// also call the quarantine service and the members, which are created after them.
func (s *Server) newServices() {
	o := &s.options
	s.blocks = blocks.NewList(o.Store, o.Hints, s.log)
	s.modules = modules.New(&modules.Options{
		Store:     o.Store,
		Host:      o.Host,
		Blocks:    s.blocks,
		Admission: s.admission,
		Logger:    s.log,
		Now:       o.Now,
		Timeouts:  s.timeouts,
		MaxUpload: o.MaxUpload,
	})
	s.agents = agents.New(
		&agents.Options{Store: o.Store, Host: o.Host, Modules: s.modules, Admission: s.admission, Logger: s.log, Now: o.Now,
			Journal: journal.Options{
				Owner:     o.Owner,
				Gone:      o.Gone,
				LeaseTTL:  o.LeaseTTL,
				Drain:     s.draining,
				Abort:     s.aborted,
				Originals: o.Originals,
				Dropped:   &s.dropped,
			},
			Tracer: s.tracer, Getenv: o.Getenv, Model: o.Model, Private: o.Private, Commands: o.Commands},
	)
	s.pool = agents.NewPool(s.agents)
	s.runs = runs.New(&runs.Options{
		Currency:  o.Currency,
		Store:     o.Store,
		Agents:    s.pool,
		Admission: s.admission,
		Overload:  s.overload,
		Blocks:    s.blocks,
		Logger:    s.log,
		Now:       o.Now,
		Timeouts:  s.timeouts,
		Owner:     o.Owner,
		LeaseTTL:  o.LeaseTTL,
		Draining:  s.draining,
		Hints:     o.Hints,
		Go:        s.work.Go,
		Servers:   func() []string { return s.members.Executing() },
		Judge:     func(ctx context.Context, info *journal.RunInfo) (bool, error) { return s.quarantine.Judge(ctx, info) },
	})
	s.routes = routes.New(&routes.Options{
		Store:     o.Store,
		Host:      o.Host,
		Agents:    s.agents,
		Pool:      s.pool,
		Runs:      s.runs,
		Admission: s.admission,
		Blocks:    s.blocks,
		Logger:    s.log,
		Go:        s.work.Go,
		Abort:     s.aborted,
		Private:   o.Private,
		Tracer:    telemetry.Join(o.Tracer, s.metrics.tracer),
	})
	s.threads = &threads.Threads{
		Store:     o.Store,
		Runs:      s.runs,
		Admission: s.admission,
		Timeouts:  s.timeouts,
		Logger:    s.log,
	}
	s.rollouts = rollouts.New(
		&rollouts.Options{Store: o.Store, Blocks: s.blocks, Logger: s.log, Currency: o.Currency})
	s.replays = replays.New(&replays.Options{
		Store:     o.Store,
		Host:      o.Host,
		Agents:    s.agents,
		Modules:   s.modules,
		Runs:      s.runs,
		Admission: s.admission,
		Overload:  s.overload,
		Logger:    s.log,
		Workers:   o.Processors / 2,
		Draining:  s.draining,
	})
	_, single := o.Hints.(hints.None)
	s.quarantine = quarantine.New(&quarantine.Options{
		Store:      o.Store,
		Overload:   s.overload,
		Logger:     s.log,
		Owner:      o.Owner,
		InProgress: s.runs.InProgress,
		Count:      s.runs.Count,
		Waiting:    s.runs.Waiting,
		Gone:       o.Gone,
		Single:     single,
		Reports:    o.CrashReports,
	})
	if !single && o.Owner != "" {
		s.members = s.newMembers()
	}
}

// tracer returns a tracer of a tenant's runs that reports to the server's tracer, to its metrics, to
// the stored timelines, and to clients that watch a run.
func (s *Server) tracer(t *store.Tenant) tracing.Tracer {
	return telemetry.Join(s.options.Tracer, s.metrics.tracer, runs.Timelines(t, s.log), runs.Activities())
}

// releaseIdle closes the agents and modules that no run uses, to free their memory.
func (s *Server) releaseIdle() {
	s.pool.CloseIdle()
	s.modules.CloseIdle()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// HandedBack returns the number of runs that the server released to the journal at shutdown.
func (s *Server) HandedBack() int { return int(s.runs.HandedBack()) }

// headerBytes limits the header of a request.
const headerBytes = 32 << 10

// Serve serves requests until ctx is done. Then it drains: requests and runs may end within the
// drain time. Runs that do not end are released to the journal, and another server resumes them at
// once. Serve returns nil if every run ended or was released. If the listener fails, Serve returns
// its error without draining.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.timeouts.Header,
		IdleTimeout:       s.timeouts.Idle,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.quarantine.Begin(background)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var all sync.WaitGroup
		all.Go(func() { s.blocks.Watch(background) })
		all.Go(func() { s.overload.Watch(background) })
		all.Go(func() { s.quarantine.Watch(background) })
		all.Go(func() { s.runs.TakeOver(background) })
		all.Go(func() { s.pool.Watch(background) })
		all.Go(func() { s.runs.WatchBlocks(background) })
		all.Go(func() { s.runs.WatchCancels(background) })
		all.Go(func() { s.runs.WatchQueues(background) })
		all.Go(func() { s.routes.Watch(background) })
		if s.members != nil {
			all.Go(func() { s.members.Watch(background) })
		}
		all.Go(func() { s.runs.Broadcast(background) })
		all.Go(func() { s.replays.Watch(background) })
		all.Go(func() { s.rollouts.Watch(background) })
		all.Go(func() { s.threads.Watch(background) })
		all.Go(func() { s.modules.DeleteUnused(background, modules.UnusedInterval, modules.UnusedAge) })
		all.Go(func() { s.router.WatchTokens(background) })
		all.Go(func() { tokens.DeleteExpired(background, s.options.Store, s.log) })
		all.Wait()
	}()
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err := <-failed:
		stop()
		<-watched
		return err
	case <-ctx.Done():
	}
	err := s.shutdown(context.WithoutCancel(ctx), hs)
	stop()
	<-watched
	if err == nil {
		s.quarantine.End()
	}
	return err
}

// shutdown drains the server. After the drain time it aborts runs, which other servers resume, and
// closes connections. It fails if a run neither ended nor was released.
func (s *Server) shutdown(ctx context.Context, hs *http.Server) error {
	s.drainOnce.Do(func() { close(s.draining) })
	if s.await(ctx, hs, s.options.DrainTime) != nil {
		s.log.Warn("drain time exceeded: aborting work in progress", "drain", s.options.DrainTime)
		s.abort.Do(func() { close(s.aborted) })
		_ = s.await(ctx, hs, s.timeouts.HandBack)
		_ = hs.Close()
	}
	if n := s.HandedBack(); n > 0 {
		s.log.Info("runs handed back: another server resumes them, or this one when it restarts", "runs", n)
	}
	if n := s.runs.Count(); n > 0 {
		return fmt.Errorf(
			"%d runs neither ended in time nor were handed back; a server resumes them when their leases expire",
			n,
		)
	}
	return nil
}

// await waits until no request and no run is in progress. It fails if that takes longer than limit.
func (s *Server) await(ctx context.Context, hs *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := hs.Shutdown(ctx)
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return cmp.Or(err, context.Cause(ctx))
	}
}

// OperatorKey creates an API key of the operator and returns its text. If another is false, it
// creates only the first key, and returns "" if the operator has a valid one. The store has only
// hashes of keys, so the key cannot be read again.
func (s *Server) OperatorKey(ctx context.Context, another bool) (string, error) {
	operator := s.options.Store.Tenant(store.Operator)
	o := &store.KeyOptions{Name: "operator", Scopes: httpapi.OperatorScopes()}
	if another {
		_, key, err := operator.CreateKey(ctx, o)
		return key, err
	}
	return operator.CreateFirstKey(ctx, o)
}
