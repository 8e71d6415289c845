package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/host/store"
)

// The environment of a server.
const (
	envSecrets = "AGENT_RUNNER_SECRETS_KEY"
	envListen  = "AGENT_RUNNER_LISTEN"
)

const defaultListen = "127.0.0.1:8080"

// A serveCommand is what was typed after serve.
type serveCommand struct {
	env         *env
	listen      string
	storeAt     string
	secretsFile string
	newKey      bool
	drain       time.Duration
	maxUpload   int64
	logFormat   string
	cacheDir    string
	private     []string
}

func newServe(e *env) *cobra.Command {
	c := &serveCommand{env: e}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a platform: tenants bring modules and run agents over HTTP",
		Long: `Serves a platform: tenants bring modules and run agents over HTTP.

The first start prints the operator's key, once. The store is
` + storeHelp + `;
without --store that of $` + envStore + `, else the default.

Secrets of tenants are kept encrypted, with keys from --secrets-key-file or
$` + envSecrets + `: lines of name:key with 32 bytes in base64, the newest first.
Without them no secrets can be kept.

$` + host.EnvAPIKey + ` and $` + host.EnvBaseURL + ` are the operator's model: tenants may ask it whose
policy names models. With $` + envOTLP + ` spans of runs are sent there.

SIGINT and SIGTERM end it: requests under way are answered, runs are handed back
to the journal. A second signal ends it at once.`,
		Example: `  agent-runner serve
  agent-runner serve --listen 0.0.0.0:8080 --store postgres://localhost/agents
  echo "main:$(openssl rand -base64 32)" > secrets.key && agent-runner serve --secrets-key-file secrets.key`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s takes no arguments; to listen at an address: --listen %s", cmd.CommandPath(), short(args[0], 60))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.listen, "listen", "", "the address to listen at; port 0 takes a free one (default $"+envListen+", else "+defaultListen+")")
	f.StringVar(&c.storeAt, "store", "", storeHelp)
	f.StringVar(&c.secretsFile, "secrets-key-file", "", "the file with the keys that encrypt tenants' secrets")
	f.StringArrayVar(&c.private, "allow-private", nil, "let agents connect to private addresses in `RANGE`, such as 10.1.0.0/16, at hosts that their policy allows")
	f.BoolVar(&c.newKey, "new-operator-key", false, "make another key of the operator, and print it")
	f.DurationVar(&c.drain, "drain", 30*time.Second, "how long requests and runs may take to end at a signal")
	f.Int64Var(&c.maxUpload, "max-upload", 16<<20, "the largest module, in bytes")
	f.StringVar(&c.logFormat, "log", "text", "how requests are logged to stderr: text, json or off")
	f.StringVar(&c.cacheDir, "cache-dir", "", "keep compiled modules here (default $"+envCacheDir+", else the user's cache directory)")
	return cmd
}

func (c *serveCommand) run(ctx context.Context) error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	network, err := (&runCommand{env: c.env, private: c.private}).network()
	if err != nil {
		return err
	}
	keyring, err := c.keyring()
	if err != nil {
		return err
	}
	// A port that is taken is told before anything is made.
	address := cmp.Or(c.listen, c.env.getenv(envListen), defaultListen)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return listenError(address, err)
	}
	defer listener.Close()
	where := cmp.Or(c.env.storeAt(c.storeAt), c.env.storeAt(defaultStore))
	s, err := store.Open(ctx, where, &store.Options{Keyring: keyring})
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := newHost(ctx, c.env, c.cacheDir != "", host.Options{CacheDir: c.cacheDir, Logger: log})
	if err != nil {
		return err
	}
	defer closeHost(h)
	tracer, flush, err := c.env.tracer(ctx)
	if err != nil {
		return err
	}
	defer flush()
	srv, err := server.New(&server.Options{Store: s, Host: h, Logger: log, Version: version(), DrainTime: c.drain, MaxUpload: c.maxUpload,
		Owner: owner(), Gone: ownerGone, Getenv: c.env.getenv, Private: network.Private, Tracer: tracer})
	if err != nil {
		return err
	}
	if err := c.greet(ctx, s, "http://"+reachable(listener.Addr()), where); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends the process
	if err := srv.Serve(ctx, listener); err != nil {
		return &endedError{exitFailed, err}
	}
	fmt.Fprintln(c.env.err, "ended: everything under way was answered")
	return nil
}

// greet says where the server is, and, once, how to begin.
func (c *serveCommand) greet(ctx context.Context, s store.Store, url, where string) error {
	key, err := c.operatorKey(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.env.err, "serving at %s, with the store %s\n", url, where)
	if key == "" {
		return nil
	}
	// The key goes to where programs read it; what is said about it does not.
	fmt.Fprintf(c.env.err, "\nThis is the operator's key. It is shown this once; keep it safe:\n\n")
	fmt.Fprintln(c.env.out, key)
	fmt.Fprintf(c.env.err, `
Log in with it; create a tenant, and a key for it:

  agent-runner login %[1]s
  agent-runner tenants create acme
  agent-runner keys create first --tenant acme

The same without this command:

  curl -sS %[1]s/v1/tenants -H "Authorization: Bearer %[2]s" -H "Content-Type: application/json" -d '{"id":"acme"}'
  curl -sS %[1]s/v1/tenants/acme/keys -H "Authorization: Bearer %[2]s" -H "Content-Type: application/json" -d '{"name":"first"}'

`, url, key)
	return nil
}

// operatorKey makes the first key of the operator, or another one where it is
// asked for.
func (c *serveCommand) operatorKey(ctx context.Context, s store.Store) (string, error) {
	operator := s.Tenant(store.Operator)
	o := &store.NewKey{Name: "operator", Scopes: server.OperatorScopes()}
	if c.newKey {
		_, shown, err := operator.CreateKey(ctx, o)
		return shown, err
	}
	return operator.FirstKey(ctx, o)
}

func (c *serveCommand) logger() (*slog.Logger, error) {
	switch c.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(c.env.err, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.env.err, nil)), nil
	case "off":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, usagef("--log is %q; want text, json or off", c.logFormat)
}

// maxKeyFile is the size of the largest file of keys.
const maxKeyFile = 64 << 10

// keyring reads the keys of secrets; nil if there are none.
func (c *serveCommand) keyring() (*store.Keyring, error) {
	text := c.env.getenv(envSecrets)
	if c.secretsFile != "" {
		f, err := os.Open(c.secretsFile)
		if err != nil {
			return nil, usagef("--secrets-key-file: %w; make one with: echo \"main:$(openssl rand -base64 32)\" > FILE", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, usagef("--secrets-key-file: others may read %s; run: chmod 600 %s", c.secretsFile, c.secretsFile)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
		if err != nil {
			return nil, usagef("--secrets-key-file: %w", err)
		}
		text = string(b)
	}
	if text == "" {
		return nil, nil
	}
	return store.ParseKeyring(text)
}

// listenError says what to do about an address that cannot be had.
func listenError(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return usagef("--listen %s: another program listens there; end it, or give another port: --listen 127.0.0.1:0 takes a free one", address)
	case errors.Is(err, syscall.EACCES):
		return usagef("--listen %s: this user may not listen there; take a port above 1023", address)
	}
	return usagef("--listen %s: %w; want HOST:PORT, such as %s", address, err, defaultListen)
}

// reachable is an address that a command on this machine can use.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}
