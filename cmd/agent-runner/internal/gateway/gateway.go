// Package gateway implements the commands "gateway" and "wrap", which put modules in front of programs
// that call model APIs.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
)

// DefaultListen is the default address of a gateway.
const DefaultListen = "127.0.0.1:8010"

// A command holds the flags of "gateway".
type command struct {
	env       *cli.Env
	file      string
	listen    string
	address   string // to listen on
	private   []string
	drain     time.Duration
	logFormat string
	cacheDir  string
	chosen    bool // --cache-dir is set
	log       *slog.Logger
}

// New returns the "gateway" command.
func New(e *cli.Env) *cobra.Command {
	c := &command{env: e}
	cmd := &cobra.Command{
		Use:   "gateway FILE",
		Short: "Serve a gateway: modules in front of model APIs, for programs that you already have",
		Long: `Serves the routes of FILE, a gateway.yaml. Programs that use OpenAI's chat completions or
Responses API, or Anthropic's Messages API, send their requests to the gateway instead of
the API: they need another base URL and nothing else. Each request and its answer pass
through the modules of its route.

A change of FILE or of a module is active within a second, for new requests. If it does
not load, the gateway logs the error and keeps the previous routes.

For one program on this machine, use: agent-runner wrap.`,
		Example: `  agent-runner gateway gateway.yaml
  ANTHROPIC_BASE_URL=http://` + DefaultListen + ` claude
  codex -c 'openai_base_url="http://` + DefaultListen + `/v1"'
  OPENAI_BASE_URL=http://` + DefaultListen + `/v1 python agent.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want the path of one gateway.yaml, such as: agent-runner gateway gateway.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.file, c.chosen = args[0], cmd.Flags().Changed("cache-dir")
			var err error
			if c.log, err = hosting.RequestLogger(c.env, c.logFormat); err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {
				fmt.Fprintf(e.Err, "agent-runner: draining for at most %v; another signal exits immediately\n", c.drain)
			})
			defer stop()
			return c.run(ctx)
		},
	}
	cmd.AddCommand(newUsage(e))
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(
		&c.listen,
		"listen",
		"",
		"listen on `ADDRESS`; port 0 selects a free port (default: the file's, else "+DefaultListen+")",
	)
	f.StringArrayVar(&c.private, "allow-private", nil,
		"let modules connect to granted hosts at private addresses in `RANGE`, such as 127.0.0.0/8")
	f.DurationVar(&c.drain, "drain", 30*time.Second, "the maximum `TIME` that requests may take to end after a signal")
	f.StringVar(&c.logFormat, "log", "text", "the format of logs on standard error: `text`, json or off")
	f.StringVar(
		&c.cacheDir,
		"cache-dir",
		"",
		"cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)",
	)
	return cmd
}

// run serves until ctx is done.
func (c *command) run(ctx context.Context) error {
	f, seen, err := c.load(ctx)
	if err != nil {
		return err
	}
	c.address = cmp.Or(c.listen, f.Listen, DefaultListen)
	if _, _, err := net.SplitHostPort(c.address); err != nil {
		return cli.Usagef("listen is %q; want HOST:PORT, such as %s", cli.Short(c.address, 60), DefaultListen)
	}
	if err := c.guarded(f); err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		return cli.Usagef("cannot listen on %s: %w", c.address, err)
	}
	defer l.Close()
	h, _, err := hosting.NewHost(ctx, c.env, c.chosen, host.Options{CacheDir: c.cacheDir, Logger: c.log})
	if err != nil {
		return err
	}
	defer hosting.CloseHost(h)
	network, err := hosting.NetworkOptions(c.env, nil, c.private)
	if err != nil {
		return err
	}
	tracer, flush, err := hosting.NewTracer(ctx, c.env)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	defer flush()
	o := &gateway.Options{OnEvent: c.event, Logger: c.log,
		Modules: &host.FileOptions{Network: network, Getenv: c.env.Getenv, Logger: c.log, Tracer: tracer}}
	m, err := c.meter(f, o)
	if err != nil {
		return err
	}
	defer m.Close()
	g, err := gateway.New(ctx, h, f, o)
	if err != nil {
		return cli.BeforeRun(ctx, err)
	}
	defer g.Close()
	c.greet(f, l.Addr())
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go c.watch(watching, g, seen)
	return serve(
		ctx,
		&http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		l,
		c.drain,
	)
}

// load reads the file, and builds the source folders that the file names. If the file was read, seen
// has the state of the files to watch before loading.
func (c *command) load(ctx context.Context) (f *gateway.File, seen watched, err error) {
	f, err = gateway.LoadFile(c.file)
	if err != nil {
		return nil, seen, err
	}
	seen.files = append([]string{c.file}, f.Files()...)
	seen.stamps = stamps(seen.files)
	return f, seen, build(ctx, c.env, f)
}

// guarded returns an error if other machines could use the gateway without a key.
func (c *command) guarded(f *gateway.File) error {
	if len(f.Keys) == 0 && !isLoopback(c.address) {
		return cli.Usagef("other machines could use the gateway on %s without a key; add keys to %s, or listen on 127.0.0.1",
			c.address, c.file)
	}
	return nil
}

// build builds the source folders that a file names as modules.
func build(ctx context.Context, e *cli.Env, f *gateway.File) error {
	for i := range f.Routes {
		if err := hosting.BuildModules(ctx, e, f.Routes[i].Chain()); err != nil {
			return err
		}
	}
	return nil
}

// isLoopback reports whether only programs of this machine reach an address.
func isLoopback(address string) bool {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// greet prints the address and the routes.
func (c *command) greet(f *gateway.File, at net.Addr) {
	fmt.Fprintf(c.env.Err, "gateway at http://%s\n", at)
	for i := range f.Routes {
		r := &f.Routes[i]
		modules := ""
		for _, e := range hosting.Entries(r.Chain()) {
			modules += " → " + e.Name
		}
		fmt.Fprintf(c.env.Err, "  %s (%s): %s%s → %s\n", r.Name, r.Protocol, cli.List(r.Models, "all models"), modules,
			hosting.RedactedLocation(string(r.Upstream)))
	}
}

// serve serves requests until ctx is done. It then waits at most drain for requests in progress.
func serve(ctx context.Context, s *http.Server, l net.Listener, drain time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return cli.Ended(cli.ExitFailed, err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(draining); err != nil {
		_ = s.Close()
		return cli.Ended(cli.ExitFailed, errors.New("requests were interrupted, because they took longer than --drain"))
	}
	return nil
}

// event logs the effects of modules on a request: decisions other than allow, faults and log lines.
func (c *command) event(e abi.Event) {
	switch e.Type {
	case abi.EventDecision:
		if d := e.Decision; d.Decision != abi.DecideAllow {
			c.log.Info("decision", "run", e.Run, "entry", e.Entry, "decision", d.Decision, "tool", d.Tool, "reason", d.Reason)
		}
	case abi.EventFault:
		c.log.Warn("fault", "run", e.Run, "entry", e.Entry, "hook", string(e.Hook), "cause", e.Cause, "action", e.Action)
	case abi.EventLog:
		c.log.Info("log", "run", e.Run, "entry", e.Entry, "level", e.Level, "text", e.Text)
	}
}
