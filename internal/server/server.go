package server

import (
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"

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
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/console"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/modules"
	"github.com/agent-runner/agent-runner/internal/server/quarantine"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/tenants"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Options make a server.
type Options struct {
	// Store keeps everything. The caller closes it after the server.
	Store store.Store
	// Host loads modules and runs agents. The caller closes it after the server.
	Host *host.Host
	// Logger hears of requests; nil: nobody.
	Logger *slog.Logger
	// Version is this program's, for the document.
	Version string
	// MaxUpload is the largest module, in bytes; 16 MiB when 0. Tenants may have
	// less.
	MaxUpload int64
	// DrainTime is how long requests and runs may take to end when the server
	// does; 30 s when 0.
	DrainTime time.Duration
	// Owner names this process in the runs that it runs, and Gone reports whether
	// another one is known to be gone; see [journal.Options].
	Owner string
	Gone  func(owner string) bool
	// Lease is after how long without a sign of life a run is taken over by another
	// server; [journal.DefaultLeaseTTL] when 0.
	Lease time.Duration
	// Getenv has the operator's model, which tenants may ask whose policy names its
	// models: [host.EnvAPIKey] and [host.EnvBaseURL]. Nil: there is none.
	Getenv func(name string) string
	// Model, if there is one, answers in the place of the operator's model: a
	// recording, say.
	Model model.Model
	// Private are ranges of private addresses that agents may reach; nil: none.
	Private []netip.Prefix
	// Originals keeps the messages that runs begin with as their clients sent them, also
	// where modules change them; see [journal.Options].
	Originals bool
	// Commands starts the MCP servers that agents of the operator's tenant name by a
	// command. Nil: a server's agents start no programs.
	Commands agents.Commands
	// Tracer is told of what runs do; nil: nobody is.
	Tracer tracing.Tracer
	// Processors is how many of them work may keep busy that goes on for long: guests,
	// large bodies. GOMAXPROCS when 0; where that is larger, what is short waits less for
	// what is long.
	Processors int
	// Memory is how many bytes of memory the process may use; the limits of the system
	// apply besides. Those alone when 0.
	Memory int64
	// TuneGC lets the server set the Go runtime's memory limit.
	TuneGC bool
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// A Server is the platform's HTTP. It is made by [New].
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
	fleet      *agents.Pool
	runs       *runs.Service
	quarantine *quarantine.Service
	metrics    *metrics
	dropped    atomic.Int64 // events of stopped runs that were not persisted

	draining  chan struct{}
	drainOnce sync.Once
	aborted   chan struct{} // closed when what is still under way is ended
	abort     sync.Once
	work      sync.WaitGroup
}

// New makes a server. Serve, or another HTTP server, calls it.
func New(o *Options) (*Server, error) {
	if o == nil || o.Store == nil || o.Host == nil {
		return nil, errors.New("a server needs a store and a host")
	}
	s := &Server{options: *o, log: o.Logger, timeouts: httpapi.DefaultTimeouts(), draining: make(chan struct{}), aborted: make(chan struct{})}
	s.setDefaults()
	s.admission = admission.New(s.options.Processors, s.options.Now, s.draining)
	s.overload = newOverload(s)
	var err error
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, err
	}
	s.newServices()
	s.router = httpapi.NewRouter(&httpapi.RouterOptions{Store: o.Store, Admission: s.admission, Overload: s.overload, Logger: s.log, Now: s.options.Now, Timeouts: s.timeouts, Observe: s.metrics.note, Version: s.options.Version})
	for _, r := range []interface{ Routes(*httpapi.Router) }{
		&health{o.Store, s.draining}, &tenants.Tenants{Store: o.Store, Timeouts: s.timeouts, Runs: s.runs}, &tenants.Keys{Store: o.Store}, s.blocks, &tenants.Usages{Store: o.Store, Now: s.options.Now},
		s.modules, s.agents, &tenants.Secrets{}, s.runs, s.quarantine, &gateway.Chat{Runs: s.runs, Admission: s.admission}, &gateway.AGUI{Runs: s.runs, Admission: s.admission, Timeouts: s.timeouts}, s.metrics,
	} {
		r.Routes(s.router)
	}
	console.Mount(s.router.Handle)
	return s, nil
}

// setDefaults sets options that were not given.
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
}

// newServices makes the services behind the routes, each from those before it.
func (s *Server) newServices() {
	o := &s.options
	s.blocks = blocks.NewList(o.Store, s.log)
	s.modules = modules.New(&modules.Options{Store: o.Store, Host: o.Host, Blocks: s.blocks, Admission: s.admission, Logger: s.log, Now: o.Now, Timeouts: s.timeouts, MaxUpload: o.MaxUpload})
	s.agents = agents.New(&agents.Options{Store: o.Store, Host: o.Host, Modules: s.modules, Admission: s.admission, Logger: s.log, Now: o.Now,
		Journal: journal.Options{Owner: o.Owner, Gone: o.Gone, LeaseTTL: o.Lease, Drain: s.draining, Abort: s.aborted, Originals: o.Originals, Dropped: &s.dropped},
		Tracer:  s.tracer, Getenv: o.Getenv, Model: o.Model, Private: o.Private, Commands: o.Commands})
	s.fleet = agents.NewPool(s.agents)
	s.runs = runs.New(&runs.Options{Store: o.Store, Agents: s.fleet, Admission: s.admission, Overload: s.overload, Blocks: s.blocks, Logger: s.log, Now: o.Now, Timeouts: s.timeouts,
		Owner: o.Owner, Lease: o.Lease, Draining: s.draining, Go: s.work.Go, Judge: func(ctx context.Context, info *journal.RunInfo) (bool, error) { return s.quarantine.Judge(ctx, info) }})
	s.quarantine = quarantine.New(&quarantine.Options{Store: o.Store, Overload: s.overload, Logger: s.log, Owner: o.Owner, InProgress: s.runs.InProgress})
}

// tracer records a tenant's runs: for the server's own tracer, metrics and timelines.
func (s *Server) tracer(t *store.Tenant) tracing.Tracer {
	return telemetry.Join(s.options.Tracer, s.metrics.tracer, runs.Timelines(t, s.log))
}

// releaseIdle closes agents and modules that no run uses.
func (s *Server) releaseIdle() {
	s.fleet.Close(0, 0)
	s.modules.CloseIdle()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// HandedBack is how many runs this server has left to whoever goes on with them, since
// it was to end.
func (s *Server) HandedBack() int { return int(s.runs.HandedBack()) }

// headerBytes is how large the header of a request may be.
const headerBytes = 32 << 10

// Serve answers requests until ctx ends, then lets those under way end, and runs come to
// their end or be handed back to the journal. What takes longer is cut off. It returns nil
// if no run was lost sight of: one that was handed back goes on at once at another server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: s.timeouts.Header, IdleTimeout: s.timeouts.Idle, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
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
		all.Go(func() { s.fleet.Tidy(background) })
		all.Go(func() { s.runs.WatchBlocks(background) })
		all.Go(func() { s.runs.WatchCancels(background) })
		all.Go(func() { s.modules.DeleteUnused(background, modules.UnusedInterval, modules.UnusedAge) })
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

// shutdown ends what is under way, for the time that there is. Runs that take longer are
// cut off, and left to another server; requests that do are cut off.
func (s *Server) shutdown(ctx context.Context, hs *http.Server) error {
	s.drainOnce.Do(func() { close(s.draining) })
	if s.await(ctx, hs, s.options.DrainTime) != nil {
		s.log.Warn("what takes longer than the server may take to end is cut off", "drain", s.options.DrainTime)
		s.abort.Do(func() { close(s.aborted) })
		_ = s.await(ctx, hs, s.timeouts.HandBack)
		_ = hs.Close()
	}
	if n := s.HandedBack(); n > 0 {
		s.log.Info("runs are handed back: another server goes on with them, or this one when it begins again", "runs", n)
	}
	if n := s.runs.Count(); n > 0 {
		return fmt.Errorf("%d runs did not end in time, nor could they be handed back; they go on from the journal when they have been missed", n)
	}
	return nil
}

// await waits until nothing is under way, for so long.
func (s *Server) await(ctx context.Context, hs *http.Server, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
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
