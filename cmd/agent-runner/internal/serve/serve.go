// Package serve implements the "serve" command.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/echo"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/gateway/usage"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/spawner"
)

// Environment variables of a server.
const (
	EnvSecrets = "AGENT_RUNNER_SECRETS_KEY"
	EnvListen  = "AGENT_RUNNER_LISTEN"
)

// DefaultListen is the default of the flag --listen.
const DefaultListen = "127.0.0.1:8080"

// A serveCommand holds the flags of serve.
type serveCommand struct {
	env         *cli.Env
	listen      string
	storeAt     string
	secretsFile string
	replay      string
	model       string
	private     []string
	originals   bool
	newKey      bool
	drain       time.Duration
	lease       time.Duration
	retention   string

	signIn         string // file with the identity provider
	issuer         string // the provider's address
	auditRetention string
	auditAge       time.Duration // auditRetention, parsed

	maxUpload   int64
	memoryLimit string
	logFormat   string
	pricesFile  string
	cacheDir    string
	chosen      bool // --cache-dir is set
	mcpCommands string

	noConfine    bool
	connectPorts []uint
	cluster      clusterFlags
	config       string
}

// NewServe returns the "serve" command.
func NewServe(e *cli.Env) *cobra.Command {
	c := &serveCommand{env: e}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a platform: tenants bring modules and run agents over HTTP",
		Long: `Serves a platform: tenants upload modules and run agents over HTTP. / is the console,
/openapi.json describes the API. The commands login, tenants, keys, modules, agents,
secrets, usage, blocks and runs are its clients.

The first start prints the operator's key to standard output, once, and the next
commands to standard error. The store is ` + hosting.StoreHelp + `;
it defaults to $` + hosting.EnvStore + `, else default. Several servers can
share a PostgreSQL database; if one of them dies, another resumes its runs. They tell
each other when to look into it by PostgreSQL's NOTIFY, or through NATS (--nats,
--cluster-listen) if many events are followed at other servers than their run's.

$` + agentfile.EnvAPIKey + ` and $` + agentfile.EnvBaseURL + ` configure the operator's model endpoint, and
$` + agentfile.EnvAnthropicAPIKey + ` and $` + agentfile.EnvAnthropicBaseURL + ` that of agents with provider: messages.
Tenants can use the models that their policy allows (tenants create --allow-model), or
set a key of their own (secrets set). If ` + hosting.EnvOTLP + `
is set, spans of runs are sent there.

Secrets of tenants are encrypted with the keys of --secrets-key-file or
$` + EnvSecrets + `: lines of name:key with 32 bytes in base64, newest first.
Without a key, tenants cannot store secrets.

SIGINT and SIGTERM drain the server: requests in flight are answered; runs finish, or
return to the journal, from which another server or the next start resumes them at
once. After --drain, the remaining requests and runs are interrupted, and the runs
return to the journal too. A second signal exits immediately.

Exit codes: 0 all runs finished or returned to the journal; 1 a run did not, or the
server failed; 2 wrong usage, or the server could not start; 130 a second signal.`,
		Example: `  agent-runner serve
  agent-runner serve --listen 0.0.0.0:8080 --store postgres://localhost/agents
  (umask 077; echo "main:$(openssl rand -base64 32)" > secrets.key); agent-runner serve --secrets-key-file secrets.key`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%s takes no arguments; to listen on an address: --listen %s",
					cmd.CommandPath(), cli.Short(args[0], 60))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.config != "" {
				if err := readConfig(cmd, c.config); err != nil {
					return err
				}
			}
			c.chosen = cmd.Flags().Changed("cache-dir")
			if err := c.check(cmd); err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {
				fmt.Fprintf(e.Err, "agent-runner: draining for at most %v; another signal exits immediately\n", c.drain)
			})
			defer stop()
			return c.run(ctx)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.config, "config", "",
		"read flags from a YAML `FILE`, such as {listen: 0.0.0.0:8080}; those on the command line come first")
	f.StringVar(&c.listen, "listen", "",
		"listen on `ADDRESS`; port 0 selects a free port (default: $"+EnvListen+", else "+DefaultListen+")")
	f.StringVar(&c.storeAt, "store", "", "the store: `WHERE` is "+hosting.StoreHelp)
	f.StringVar(&c.secretsFile, "secrets-key-file", "",
		"the `FILE` with the keys that encrypt tenants' secrets; default: $"+EnvSecrets)
	f.StringVar(
		&c.signIn,
		"sign-in",
		"",
		"let people sign in with the OpenID Connect provider that `FILE` describes; see docs/identity.md (default: keys only)",
	)
	f.StringVar(&c.replay, "replay", "",
		"answer from the recording in `FILE` instead of the operator's model")
	f.StringVar(&c.model, "model", "", "answer with the offline model, `echo`, instead of the operator's model")
	f.StringArrayVar(&c.private, "allow-private", nil,
		"let agents connect to private addresses in `RANGE`, such as 10.1.0.0/16, of hosts that their policy allows")
	f.BoolVar(&c.newKey, "new-operator-key", false, "create another operator key and print it")
	f.DurationVar(&c.drain, "drain", 30*time.Second,
		"the maximum `TIME` that requests and runs may take to end after a signal")
	f.DurationVar(
		&c.lease,
		"lease",
		journal.DefaultLeaseTTL,
		"the `TIME` after this server's last heartbeat at which its leases expire and other servers take over its runs; at least 5s",
	)
	f.StringVar(&c.mcpCommands, "mcp-commands", "",
		"let agents of the operator's tenant start the MCP servers listed in `FILE` (default: agents start no programs)")
	f.BoolVar(
		&c.noConfine,
		"no-confine",
		false,
		"do not confine the process: it can use all files of its user, start programs and connect anywhere; required on systems other than Linux",
	)
	f.UintSliceVar(
		&c.connectPorts,
		"connect-ports",
		nil,
		"connect only to these TCP `PORTS`, such as 443, and to those of the store, $"+agentfile.EnvBaseURL+" and $"+hosting.EnvOTLP+" (default: all)",
	)
	c.cluster.add(cmd)
	f.StringVar(&c.retention, "retention", forever,
		"keep ended runs for `AGE`, such as 30d or 12h, or forever, until their tenants delete them")
	f.StringVar(&c.auditRetention, "audit-retention", "365d",
		"keep records of audit logs for `AGE`, or forever; at most a million of each tenant")
	f.BoolVar(&c.originals, "keep-originals", false,
		"store the input of runs and recorded answers as they came, also where modules changed them")
	f.StringVar(&c.pricesFile, "prices", "",
		"the price `FILE` of models, as for gateway: runs and usage then have costs")
	f.Int64Var(&c.maxUpload, "max-upload", 16<<20, "the maximum size of a module, in `BYTES`")
	f.StringVar(
		&c.memoryLimit,
		"memory-limit",
		"",
		"the maximum `SIZE` of the process, such as 3GiB: above 85 % of it new runs are rejected, above 95 % the largest run ends (default: the limit of the cgroup, the rlimit or the machine)",
	)
	f.StringVar(&c.logFormat, "log", "text", "the format of request logs on standard error: `text`, json or off")
	f.StringVar(
		&c.cacheDir,
		"cache-dir",
		"",
		"cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)",
	)
	return cmd
}

// minLease is the minimum of --lease. It covers several missed heartbeats, so that a slow
// server does not lose its runs.
const minLease = 5 * time.Second

// check validates the flags. It runs before the command opens or creates anything.
func (c *serveCommand) check(cmd *cobra.Command) error {
	switch {
	case c.lease < minLease:
		return cli.Usagef("--lease is %v; want %v or more", c.lease, minLease)
	case c.drain <= 0:
		return cli.Usagef("--drain is %v; want a duration above 0, such as 30s", c.drain)
	case c.maxUpload < 1:
		return cli.Usagef("--max-upload is %d; want 1 or more", c.maxUpload)
	}
	for _, port := range c.connectPorts {
		if port < 1 || port > 65535 {
			return cli.Usagef("--connect-ports has %d; want ports from 1 to 65535", port)
		}
	}
	if len(c.connectPorts) > 0 && c.noConfine {
		return cli.Usagef("--connect-ports needs confinement; remove --no-confine")
	}
	if err := c.supported(runtime.GOOS); err != nil {
		return err
	}
	for _, name := range []string{
		"config", "listen", "store", "secrets-key-file", "replay", "model", "mcp-commands", "prices", "sign-in", "nats",
		"cluster-listen", "join",
	} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cli.Usagef("--%s is empty; set a value or remove the flag", name)
		}
	}
	return nil
}

// supported rejects flags that only Linux enforces. On other systems the operator must also choose to
// serve without confinement.
func (c *serveCommand) supported(system string) error {
	switch {
	case system == "linux":
		return nil
	case c.confines():
		return cli.Usagef(
			"servers are confined on Linux only, and this is %s; to serve trusted tenants: --no-confine",
			system,
		)
	case c.memoryLimit != "":
		return cli.Usagef("--memory-limit is enforced on Linux only, and this is %s; remove it", system)
	}
	return nil
}

// options returns the options of the server, without its store and host. It also sets the limit of
// this process's memory account.
func (c *serveCommand) options() (*server.Options, error) {
	o := &server.Options{
		Version:   cli.Version(),
		DrainTime: c.drain,
		MaxUpload: c.maxUpload,
		LeaseTTL:  c.lease,
		Owner:     hosting.Owner(),
		Gone:      hosting.OwnerGone,
		Originals: c.originals,
		Getenv:    c.env.Getenv,
	}
	var err error
	if o.Logger, err = hosting.RequestLogger(c.env, c.logFormat); err != nil {
		return nil, err
	}
	network, err := hosting.NetworkOptions(c.env, nil, c.private)
	if err != nil {
		return nil, err
	}
	o.Private = network.Private
	if o.SignIn, err = c.signInOptions(); err != nil {
		return nil, err
	}
	if o.SignIn != nil {
		o.SignIn.Private, c.issuer = o.Private, o.SignIn.Issuer
	}
	if o.Memory, err = c.processMemory(); err != nil {
		return nil, err
	}
	o.TuneGC = c.env.Getenv("GOMEMLIMIT") == ""
	account.Process().SetLimit(overload.Limit(o.Memory) / 2)
	o.Model, err = c.offline()
	return o, err
}

// offline returns the model of --model or --replay. Without these flags, it returns nil.
func (c *serveCommand) offline() (model.Model, error) {
	switch {
	case c.model != "" && c.replay != "":
		return nil, cli.Usagef("--model and --replay are mutually exclusive")
	case c.model == agentfile.Echo:
		return echo.New(), nil
	case c.model != "":
		return nil, cli.Usagef("--model is %q; want %s. For an endpoint, set $%s or $%s; agents name their models",
			c.model, agentfile.Echo, agentfile.EnvAPIKey, agentfile.EnvBaseURL)
	case c.replay != "":
		return hosting.RecordedModel(c.replay)
	}
	return nil, nil
}

// startCommands starts the spawner of the commands that --mcp-commands lists, and sets o.Commands
// to it. stop ends the spawner. Without the flag, startCommands does nothing.
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

// spread doubles GOMAXPROCS until restore is called, unless the user set it. processors is the
// earlier value. Go schedules runnable goroutines in order of arrival; the kernel prefers threads
// that used the least CPU time. With more threads than processors, short work that returns from
// the disk or the network preempts guests that compute.
func spread(getenv func(string) string) (processors int, restore func()) {
	processors = runtime.GOMAXPROCS(0)
	if getenv("GOMAXPROCS") != "" {
		return processors, func() {}
	}
	runtime.GOMAXPROCS(2 * processors)
	return processors, func() { runtime.GOMAXPROCS(processors) }
}

// run opens the store, creates the host, confines the process and serves until ctx is done. It
// prints the greeting before it serves.
func (c *serveCommand) run(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if missing := child.MissingProtections(); missing != "" {
		o.Logger.Warn(
			"the kernel cannot fully confine the server and the processes that compile modules; see docs/security.md",
			"missing",
			missing,
		)
	}
	keep := &store.Options{}
	if keep.Retention, err = c.keeps(); err != nil {
		return err
	}
	if c.auditAge, err = c.keepsAudit(); err != nil {
		return err
	}
	if keep.Keyring, err = c.keyring(); err != nil {
		return err
	}
	if keep.Cost, o.Currency, err = c.prices(); err != nil {
		return err
	}
	stopCommands, err := c.startCommands(o)
	if err != nil {
		return err
	}
	defer stopCommands()
	// Report a port in use before creating anything.
	address := cmp.Or(c.listen, c.env.Getenv(EnvListen), DefaultListen)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return listenError(address, err)
	}
	defer listener.Close()
	where := cmp.Or(hosting.StorePath(c.env, c.storeAt), hosting.StorePath(c.env, hosting.DefaultStore))
	if err := hosting.CreateStateDir(c.env, where); err != nil {
		return err
	}
	if o.Store, err = store.Open(ctx, where, keep); err != nil {
		return beforeServing(ctx, err)
	}
	defer o.Store.Close()
	if o.Hints, err = c.cluster.open(c.env.Getenv, where, o.Logger); err != nil {
		return err
	}
	defer o.Hints.Close()
	if err := c.ownTempDir(); err != nil {
		return err
	}
	cacheDir := ""
	if o.Host, cacheDir, err = hosting.NewHost(ctx, c.env, c.chosen, host.Options{
		CacheDir: c.cacheDir, Logger: o.Logger, MemoryBytes: o.Memory / 2,
	}); err != nil {
		return err
	}
	defer hosting.CloseHost(o.Host)
	if cacheDir != "" {
		named, stop, err := hosting.ReportCrashes(cacheDir)
		if err != nil {
			return fmt.Errorf("prepare crash reports: %w", err)
		}
		defer stop()
		o.CrashReports = named
	}
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
	hello := greeting{
		env:     c.env,
		url:     "http://" + reachable(listener.Addr()),
		store:   hosting.RedactedLocation(where),
		secrets: keep.Keyring != nil,
		replay:  c.replay,
		model:   c.model,
	}
	if err := hello.print(ctx, srv, o.Store, c.newKey); err != nil {
		return beforeServing(ctx, err)
	}
	return c.serve(ctx, srv, listener, o)
}

// serve answers requests, and deletes old audit records, until ctx is done. Then it drains the server, and
// prints how the server ended.
func (c *serveCommand) serve(ctx context.Context, srv *server.Server, l net.Listener, o *server.Options) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	background, end := context.WithCancel(ctx)
	defer end()
	tasks.Go(func() { pruneAudit(background, o.Store, c.auditAge, o.Logger) })
	if c.env.Serving != nil {
		go c.env.Serving(o)
	}
	if err := srv.Serve(ctx, l); err != nil {
		return cli.Ended(cli.ExitFailed, err)
	}
	if n := srv.HandedBack(); n > 0 {
		fmt.Fprintf(c.env.Err, "agent-runner: ended; returned %s to the journal for another server or the next start\n",
			cli.Count(int64(n), "run"))
		return nil
	}
	fmt.Fprintln(c.env.Err, "agent-runner: ended; all requests and runs finished")
	return nil
}

// prices reads the file of --prices. It returns a function that computes the cost of tokens in
// billionths of the currency, and the currency. A model without a price costs 0. Without the flag, cost
// is nil.
func (c *serveCommand) prices() (cost func(model string, prompt, completion int64) int64, currency string, err error) {
	if c.pricesFile == "" {
		return nil, "", nil
	}
	table, err := price.Load(c.pricesFile)
	if err != nil {
		return nil, "", cli.Usagef("--prices: %w", err)
	}
	return func(model string, prompt, completion int64) int64 {
		p := table.Find(model)
		if p == nil {
			return 0
		}
		return int64(p.Of(&usage.Tokens{Input: prompt, Output: completion}))
	}, table.Currency, nil
}

// forever is the value of --retention and --audit-retention that keeps runs until their tenants delete
// them, and audit records without a limit of their age.
const forever = "forever"

// keeps returns the retention of ended runs; 0 means until they are deleted.
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

// beforeServing returns the error of a server that did not start: err, or an error about the signal
// if ctx is done.
func beforeServing(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cli.Ended(cli.ExitCanceled, errors.New("ended before it started"))
	}
	return err
}

// maxKeyFile is the maximum size of a key file, in bytes.
const maxKeyFile = 64 << 10

// keyring reads the keys that encrypt secrets. It returns nil if none are configured.
func (c *serveCommand) keyring() (*store.Keyring, error) {
	text, from := c.env.Getenv(EnvSecrets), "$"+EnvSecrets
	if c.secretsFile != "" {
		from = "--secrets-key-file"
		info, err := os.Stat(c.secretsFile)
		if err != nil {
			return nil, cli.Usagef(
				"--secrets-key-file: %w; make one with: (umask 077; echo \"main:$(openssl rand -base64 32)\" > %s)",
				err,
				c.secretsFile,
			)
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

// listenError returns an error that explains why the server cannot listen on the address.
func listenError(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Usagef(
			"--listen %s: the address is in use; stop the other program or use another port: --listen 127.0.0.1:0 selects a free one",
			address,
		)
	case errors.Is(err, syscall.EACCES):
		return cli.Usagef("--listen %s: permission denied; use a port above 1023", address)
	}
	return cli.Usagef("--listen %s: %w; want HOST:PORT, such as %s", address, err, DefaultListen)
}

// minMemory is the minimum of --memory-limit, in bytes.
const minMemory = 256 << 20

// processMemory parses --memory-limit. It returns 0 if the flag is not set.
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
