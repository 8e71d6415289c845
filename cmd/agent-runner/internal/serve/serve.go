package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/spawner"
	"github.com/agent-runner/agent-runner/internal/store"
)

// The environment of a server.
const (
	EnvSecrets = "AGENT_RUNNER_SECRETS_KEY"
	EnvListen  = "AGENT_RUNNER_LISTEN"
)

const DefaultListen = "127.0.0.1:8080"

// A serveCommand is what was typed after serve.
type serveCommand struct {
	env         *cli.Env
	listen      string
	storeAt     string
	secretsFile string
	replay      string
	private     []string
	originals   bool
	newKey      bool
	drain       time.Duration
	lease       time.Duration
	retention   string
	maxUpload   int64
	memoryLimit string
	logFormat   string
	cacheDir    string
	chosen      bool // a cache directory was asked for
	mcpCommands string

	noConfine    bool
	connectPorts []uint
}

func NewServe(e *cli.Env) *cobra.Command {
	c := &serveCommand{env: e}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a platform: tenants bring modules and run agents over HTTP",
		Long: `Serves a platform: tenants bring modules and run agents over HTTP. At / there is a
console for people, at /openapi.json what programs want to know; the commands login,
tenants, keys, modules, agents, secrets, usage, blocks and runs speak to it.

The first start prints the operator's key to standard output, once, and what to type
next. The store is ` + hosting.StoreHelp + `;
without --store that of $` + hosting.EnvStore + `, else the default. Several servers may
have one PostgreSQL database; runs of a server that is gone go on at another one.

$` + host.EnvAPIKey + ` and $` + host.EnvBaseURL + ` are the operator's model: tenants may ask it for
the models that their policy names (tenants create --allow-model). Agents of other
tenants bring a key of their own (secrets set). With ` + hosting.EnvOTLP + `
spans of runs are sent there.

Secrets of tenants are kept encrypted, with keys from --secrets-key-file or
$` + EnvSecrets + `: lines of name:key with 32 bytes in base64, the newest first.
Without them no secrets can be kept.

SIGINT and SIGTERM end it: requests under way are answered, runs come to their end or
are handed back to the journal, from which another server, or the next one here, goes
on with them at once. What takes longer than --drain is cut off; runs are handed back
then too. A second signal ends it at once.

Exit codes: 0 all runs under way came to their end or were handed back, 1 one of them
was not, or the server failed, 2 wrong usage, or the server cannot begin, 130 ended at
once.`,
		Example: `  agent-runner serve
  agent-runner serve --listen 0.0.0.0:8080 --store postgres://localhost/agents
  (umask 077; echo "main:$(openssl rand -base64 32)" > secrets.key); agent-runner serve --secrets-key-file secrets.key`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%s takes no arguments; to listen at an address: --listen %s", cmd.CommandPath(), cli.Short(args[0], 60))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.chosen = cmd.Flags().Changed("cache-dir")
			if err := c.check(cmd); err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {
				fmt.Fprintf(e.Err, "agent-runner: ending: what is under way has %v; another signal ends it at once\n", c.drain)
			})
			defer stop()
			return c.run(ctx)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.listen, "listen", "", "listen at `ADDRESS`; port 0 takes a free one; default: $"+EnvListen+", else "+DefaultListen)
	f.StringVar(&c.storeAt, "store", "", "keep everything in a store: `WHERE` is "+hosting.StoreHelp)
	f.StringVar(&c.secretsFile, "secrets-key-file", "", "the `FILE` with the keys that encrypt tenants' secrets; default: $"+EnvSecrets)
	f.StringVar(&c.replay, "replay", "", "answer from the recording in `FILE` in the place of the operator's model; demo: from the built-in one")
	f.StringArrayVar(&c.private, "allow-private", nil, "let agents connect to private addresses in `RANGE`, such as 10.1.0.0/16, at hosts that their policy allows")
	f.BoolVar(&c.newKey, "new-operator-key", false, "make another key of the operator, and print it")
	f.DurationVar(&c.drain, "drain", 30*time.Second, "the `TIME` that requests and runs may take to end at a signal")
	f.DurationVar(&c.lease, "lease", journal.DefaultLeaseTTL, "the `TIME` without a heartbeat after which other servers, and the next one here, resume this one's runs; 5s or more")
	f.StringVar(&c.mcpCommands, "mcp-commands", "", "let agents of the operator's tenant start the MCP servers listed in `FILE`; default: agents start no programs")
	f.BoolVar(&c.noConfine, "no-confine", false, "let the process read and write all files of its user, start programs and connect to anything")
	f.UintSliceVar(&c.connectPorts, "connect-ports", nil, "connect to these TCP `PORTS` only, such as 443, and to those of the store, $"+host.EnvBaseURL+" and $"+hosting.EnvOTLP+"; default: to all")
	f.StringVar(&c.retention, "retention", forever, "keep runs that have ended for `AGE`, such as 30d or 12h; forever: until their tenants delete them")
	f.BoolVar(&c.originals, "keep-originals", false, "store the input of runs as clients sent it, also where modules changed it before the first model call")
	f.Int64Var(&c.maxUpload, "max-upload", 16<<20, "the largest module, in `BYTES`")
	f.StringVar(&c.memoryLimit, "memory-limit", "", "the `SIZE` of memory that the process may use, such as 3GiB: above 85 % of it new runs are rejected, above 95 % the largest run ends; default: what cgroups, rlimits and the machine allow")
	f.StringVar(&c.logFormat, "log", "text", "how requests are logged to standard error: `text`, json or off")
	f.StringVar(&c.cacheDir, "cache-dir", "", "keep compiled modules in `DIR`, \"\" for nowhere; default: $"+hosting.EnvCacheDir+", else the user's cache")
	return cmd
}

// minLease is the shortest lease: a server that ended is known to have missed heartbeats
// before its runs are resumed.
const minLease = 5 * time.Second

// check refuses flags that make no sense, before anything is done.
func (c *serveCommand) check(cmd *cobra.Command) error {
	switch {
	case c.lease < minLease:
		return cli.Usagef("--lease is %v; want %v or more", c.lease, minLease)
	case c.drain <= 0:
		return cli.Usagef("--drain is %v; want a time above 0, such as 30s", c.drain)
	case c.maxUpload < 1:
		return cli.Usagef("--max-upload is %d; want 1 or more", c.maxUpload)
	}
	for _, port := range c.connectPorts {
		if port < 1 || port > 65535 {
			return cli.Usagef("--connect-ports has %d; want ports from 1 to 65535", port)
		}
	}
	if len(c.connectPorts) > 0 && c.noConfine {
		return cli.Usagef("--connect-ports needs confinement; leave out --no-confine")
	}
	for _, name := range []string{"listen", "store", "secrets-key-file", "replay", "mcp-commands"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cli.Usagef("--%s is empty; give it a value, or leave it out", name)
		}
	}
	return nil
}

// options makes what the server is made of, but for its store and its host.
func (c *serveCommand) options() (*server.Options, error) {
	o := &server.Options{Version: cli.Version(), DrainTime: c.drain, MaxUpload: c.maxUpload, Lease: c.lease, Owner: hosting.Owner(), Gone: hosting.OwnerGone, Originals: c.originals, Getenv: c.env.Getenv}
	var err error
	if o.Logger, err = c.logger(); err != nil {
		return nil, err
	}
	network, err := hosting.NetworkOptions(c.env, nil, c.private)
	if err != nil {
		return nil, err
	}
	o.Private = network.Private
	if o.Memory, err = c.processMemory(); err != nil {
		return nil, err
	}
	o.TuneGC = c.env.Getenv("GOMEMLIMIT") == ""
	account.Process().SetLimit(overload.Limit(o.Memory) / 2)
	o.Model, err = hosting.RecordedModel(c.replay)
	return o, err
}

// startCommands starts the spawner of the commands that --mcp-commands lists, if any.
func (c *serveCommand) startCommands(o *server.Options) (stop func(), err error) {
	if c.mcpCommands == "" {
		return func() {}, nil
	}
	list, err := spawner.ReadCommands(c.mcpCommands)
	if err != nil {
		return nil, cli.Usagef("--mcp-commands: %w", err)
	}
	commands, err := spawner.Start(list, c.env.Getenv)
	if err != nil {
		return nil, cli.Usagef("--mcp-commands: %w", err)
	}
	o.Commands = commands
	return func() { _ = commands.Close() }, nil
}

// spread lets more threads run Go at once than there are processors, until restore. Of
// goroutines that want to run Go lets the one that came first; of threads the system lets
// the one that had least. So what comes back from the disk or the network, for a moment,
// does not wait for guests that have had all of Go's turns.
func spread(getenv func(string) string) (processors int, restore func()) {
	processors = runtime.GOMAXPROCS(0)
	if getenv("GOMAXPROCS") != "" {
		return processors, func() {}
	}
	runtime.GOMAXPROCS(2 * processors)
	return processors, func() { runtime.GOMAXPROCS(processors) }
}

func (c *serveCommand) run(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if missing := child.MissingProtections(); missing != "" {
		o.Logger.Warn("the kernel cannot fully confine the server and the processes that compile modules; see docs/security.md", "missing", missing)
	}
	keep := &store.Options{}
	if keep.Retention, err = c.keeps(); err != nil {
		return err
	}
	if keep.Keyring, err = c.keyring(); err != nil {
		return err
	}
	stopCommands, err := c.startCommands(o)
	if err != nil {
		return err
	}
	defer stopCommands()
	// A port that is taken is told before anything is made.
	address := cmp.Or(c.listen, c.env.Getenv(EnvListen), DefaultListen)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return listenError(address, err)
	}
	defer listener.Close()
	where := cmp.Or(hosting.StorePath(c.env, c.storeAt), hosting.StorePath(c.env, hosting.DefaultStore))
	if o.Store, err = store.Open(ctx, where, keep); err != nil {
		return beforeServing(ctx, err)
	}
	defer o.Store.Close()
	if err := c.ownTempDir(); err != nil {
		return err
	}
	cacheDir := ""
	if o.Host, cacheDir, err = hosting.NewHost(ctx, c.env, c.chosen, host.Options{CacheDir: c.cacheDir, Logger: o.Logger, MemoryBytes: o.Memory / 2}); err != nil {
		return err
	}
	defer hosting.CloseHost(o.Host)
	tracer, flush, err := hosting.NewTracer(ctx, c.env)
	if err != nil {
		return err
	}
	defer flush()
	o.Tracer = tracer
	if err := c.confine(where, cacheDir); err != nil {
		return err
	}
	defer collectLater(c.env.Getenv)()
	processors, restore := spread(c.env.Getenv)
	defer restore()
	o.Processors = processors
	srv, err := server.New(o)
	if err != nil {
		return err
	}
	hello := greeting{env: c.env, url: "http://" + reachable(listener.Addr()), store: hosting.Place(where), secrets: keep.Keyring != nil, replay: c.replay}
	if err := hello.say(ctx, o.Store, c.newKey); err != nil {
		return beforeServing(ctx, err)
	}
	return c.serve(ctx, srv, listener, o)
}

// serve answers until ctx ends.
func (c *serveCommand) serve(ctx context.Context, srv *server.Server, l net.Listener, o *server.Options) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	background, end := context.WithCancel(ctx)
	defer end()
	beside.Go(func() { tidy(background, o.Store, o.Logger) })
	if c.env.Serving != nil {
		go c.env.Serving(o)
	}
	if err := srv.Serve(ctx, l); err != nil {
		return cli.Ended(cli.ExitFailed, err)
	}
	if n := srv.HandedBack(); n > 0 {
		fmt.Fprintf(c.env.Err, "agent-runner: ended; handed back %s, for another server or the next start\n", cli.Count(int64(n), "run"))
		return nil
	}
	fmt.Fprintln(c.env.Err, "agent-runner: ended; everything under way came to its end")
	return nil
}

// forever is how long runs are kept that nobody deletes.
const forever = "forever"

// keeps is for how long runs are kept that have ended; 0: until they are deleted.
func (c *serveCommand) keeps() (time.Duration, error) {
	if c.retention == forever {
		return 0, nil
	}
	keep, err := cli.ParseDays("retention", c.retention)
	if err == nil && keep < time.Minute {
		err = cli.Usagef("--retention is %s; want a minute or more, such as 30d, or forever", c.retention)
	}
	return keep, err
}

// beforeServing is an error from before the server began, which may be that it was
// ended.
func beforeServing(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cli.Ended(cli.ExitCanceled, errors.New("ended before it began"))
	}
	return err
}

// How often modules are looked for that nobody names any more, and for how long they
// are kept.
const (
	tidyEvery = time.Hour
	tidyAge   = 24 * time.Hour
)

// tidy deletes modules that nobody names any more, until ctx ends.
func tidy(ctx context.Context, s store.Store, log *slog.Logger) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		switch n, err := s.DeleteUnusedModules(ctx, tidyAge); {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("modules that nobody names cannot be deleted", "error", err)
		case n > 0:
			log.Info("modules that nobody names are deleted", "modules", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *serveCommand) logger() (*slog.Logger, error) {
	switch c.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(c.env.Err, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.env.Err, nil)), nil
	case "off":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, cli.Usagef("--log is %q; want text, json or off", c.logFormat)
}

// maxKeyFile is the size of the largest file of keys.
const maxKeyFile = 64 << 10

// keyring reads the keys of secrets; nil if there are none.
func (c *serveCommand) keyring() (*store.Keyring, error) {
	text, from := c.env.Getenv(EnvSecrets), "$"+EnvSecrets
	if c.secretsFile != "" {
		from = "--secrets-key-file"
		info, err := os.Stat(c.secretsFile)
		if err != nil {
			return nil, cli.Usagef("--secrets-key-file: %w; make one with: (umask 077; echo \"main:$(openssl rand -base64 32)\" > %s)", err, c.secretsFile)
		}
		if info.Mode().Perm()&0o077 != 0 {
			return nil, cli.Usagef("--secrets-key-file: others may read %[1]s; run: chmod 600 %[1]s", c.secretsFile)
		}
		b, err := cli.ReadFile(c.secretsFile, maxKeyFile)
		if err != nil {
			return nil, cli.Usagef("--secrets-key-file: %w", err)
		}
		text = string(b)
	}
	if text == "" && c.secretsFile == "" {
		return nil, nil
	}
	k, err := store.ParseKeyring(text)
	if err != nil {
		return nil, cli.Usagef("%s: %w", from, err)
	}
	return k, nil
}

// listenError says what to do about an address that cannot be had.
func listenError(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Usagef("--listen %s: another program listens there; end it, or give another port: --listen 127.0.0.1:0 takes a free one", address)
	case errors.Is(err, syscall.EACCES):
		return cli.Usagef("--listen %s: this user may not listen there; take a port above 1023", address)
	}
	return cli.Usagef("--listen %s: %w; want HOST:PORT, such as %s", address, err, DefaultListen)
}

// minMemory is the least memory that a server can be given.
const minMemory = 256 << 20

// processMemory reads the value of --memory-limit; 0 if there is none.
func (c *serveCommand) processMemory() (int64, error) {
	if c.memoryLimit == "" {
		return 0, nil
	}
	var n agentfile.Bytes
	if err := n.UnmarshalText([]byte(c.memoryLimit)); err != nil {
		return 0, cli.Usagef("--memory-limit: %w", err)
	}
	if n < minMemory {
		return 0, cli.Usagef("--memory-limit is %q; want 256MiB or more, such as 3GiB", c.memoryLimit)
	}
	return int64(n), nil
}
