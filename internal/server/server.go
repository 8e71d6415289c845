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

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/console"
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
	// another one is known to be gone; see [agent.JournalOptions].
	Owner string
	Gone  func(owner string) bool
	// Lease is after how long without a sign of life a run is taken over by another
	// server; [agent.DefaultLease] when 0.
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
	// where modules change them; see [agent.JournalOptions].
	Originals bool
	// Commands starts the MCP servers that agents of the operator's tenant name by a
	// command. Nil: a server's agents start no programs.
	Commands Commands
	// Tracer is told of what runs do; nil: nobody is.
	Tracer chain.Tracer
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
	store   store.Store
	host    *host.Host
	log     *slog.Logger
	now     func() time.Time
	options Options
	times   times

	mux       *mux
	api       huma.API
	admission *admission.Controller // when work of tenants may run
	blocks    *blocks
	// What belongs to tenants, for services that build on them.
	modules    *modules
	agents     *agents
	runs       *runs
	fleet      *fleet
	metrics    *metrics
	overload   *overload.Manager
	memory     *memory
	quarantine *quarantine
	dropped    atomic.Int64 // events of stopped runs that were not persisted

	draining chan struct{}
	drain    sync.Once
	left     chan struct{} // closed when what is still under way is ended
	leave    sync.Once
	work     sync.WaitGroup
}

// New makes a server. Serve, or another HTTP server, calls it.
func New(o *Options) (*Server, error) {
	if o == nil || o.Store == nil || o.Host == nil {
		return nil, errors.New("a server needs a store and a host")
	}
	s := &Server{store: o.Store, host: o.Host, log: o.Logger, now: o.Now, options: *o, times: defaultTimes(), mux: &mux{ServeMux: http.NewServeMux()}, draining: make(chan struct{}), left: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.options.Getenv == nil {
		s.options.Getenv = func(string) string { return "" }
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.options.MaxUpload = cmp.Or(o.MaxUpload, 16<<20)
	s.options.DrainTime = cmp.Or(o.DrainTime, 30*time.Second)
	s.api = newAPI(s.mux, cmp.Or(o.Version, "devel"))
	s.admission = admission.New(cmp.Or(o.Processors, runtime.GOMAXPROCS(0)), s.now, s.draining)
	s.blocks = newBlocks(s.store, s.log)
	s.modules = newModules(s)
	s.memory = newMemory(account.Process())
	s.agents = &agents{s.modules, s.options.commandsOf}
	s.fleet = newFleet(s)
	s.runs = newRuns(s, s.fleet)
	s.overload = newOverload(s, o.Memory, o.TuneGC)
	s.quarantine = newQuarantine(s)
	var err error
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, err
	}
	for _, r := range []interface{ routes(*Server) }{
		&health{s.store}, &tenants{s.store, s.runs}, &keys{s.store}, s.blocks, &usage{s.now},
		s.modules, s.agents, &secrets{}, s.runs, s.quarantine, &completions{s}, &frontEnds{s}, s.metrics,
	} {
		r.routes(s)
	}
	console.Mount(s.mux.Handle)
	return s, nil
}

// Store is where the server keeps everything.
func (s *Server) Store() store.Store { return s.store }

// Draining is closed when the server begins to end: what goes on for long
// comes to its end, or is handed back to the journal.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// Go runs fn beside the requests; a server that ends waits for it.
func (s *Server) Go(fn func()) { s.work.Go(fn) }

// HandedBack is how many runs this server has left to whoever goes on with them, since
// it was to end.
func (s *Server) HandedBack() int { return int(s.runs.handed.Load()) }

// Serve answers requests until ctx ends, then lets those under way end, and runs come to
// their end or be handed back to the journal. What takes longer is cut off. It returns nil
// if no run was lost sight of: one that was handed back goes on at once at another server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: s.times.header, IdleTimeout: s.times.idle, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.quarantine.begin(background)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var all sync.WaitGroup
		all.Go(func() { s.blocks.watch(background) })
		all.Go(func() { s.overload.Watch(background) })
		all.Go(func() { s.quarantine.watch(background) })
		all.Go(func() { s.runs.takeOver(background) })
		all.Go(func() { s.fleet.tidy(background) })
		all.Go(func() { s.runs.heed(background) })
		all.Go(func() { s.runs.watchCancels(background) })
		all.Go(func() { s.modules.sweep(background, sweepEvery, orphanAge) })
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
		s.quarantine.end()
	}
	return err
}

// shutdown ends what is under way, for the time that there is. Runs that take longer are
// cut off, and left to another server; requests that do are cut off.
func (s *Server) shutdown(ctx context.Context, hs *http.Server) error {
	s.drain.Do(func() { close(s.draining) })
	if s.await(ctx, hs, s.options.DrainTime) != nil {
		s.log.Warn("what takes longer than the server may take to end is cut off", "drain", s.options.DrainTime)
		s.leave.Do(func() { close(s.left) })
		_ = s.await(ctx, hs, s.times.hand)
		_ = hs.Close()
	}
	if n := s.HandedBack(); n > 0 {
		s.log.Info("runs are handed back: another server goes on with them, or this one when it begins again", "runs", n)
	}
	if n := s.runs.lives.count(); n > 0 {
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
