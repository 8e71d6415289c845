package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// The environment variables with the addresses of model APIs. The value of envOpenAI ends with /v1.
const (
	envAnthropic = "ANTHROPIC_BASE_URL"
	envOpenAI    = "OPENAI_BASE_URL"
)

// A wrapper holds the flags of "wrap".
type wrapper struct {
	env      *cli.Env
	modules  hosting.ModuleFlags
	file     string
	upstream string
	hold     bool
	quiet    bool
	cacheDir string
	chosen   bool // --cache-dir is set
}

// NewWrap returns the "wrap" command.
func NewWrap(e *cli.Env) *cobra.Command {
	c := &wrapper{env: e}
	cmd := &cobra.Command{
		Use:   "wrap [flags] PROGRAM [-- ARGS…]",
		Short: "Run a program, such as claude or codex, with modules in front of its model",
		Long: `Starts a gateway on a free port of this machine, runs PROGRAM with its model's address
changed to the gateway, and ends with the program's exit code. The gateway passes on the
credentials that the program sends, and stores nothing. At the end, wrap prints what the
modules did to standard error.

claude and codex are known. Other programs get
$` + envAnthropic + ` and $` + envOpenAI + `, which the SDKs of Anthropic and OpenAI read. If
they are set already, the gateway uses their values as its upstreams.`,
		Example: `  agent-runner wrap -m tool-policy.wasm --module-config 'tool-policy={"rules":[{"tools":["WebFetch"],"action":"deny"}]}' claude
  agent-runner wrap -m redact.wasm --module-config 'redact={"reversible":true}' codex -- exec "list the files"
  agent-runner wrap -m tool-policy.wasm python -- agent.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("want a program to run, such as: agent-runner wrap -m redact.wasm claude")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.chosen = cmd.Flags().Changed("cache-dir")
			return c.run(cmd.Context(), args)
		},
	}
	c.modules.Add(cmd, e, "after those of -f")
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false) // flags after the program are the program's
	f.StringVarP(&c.file, "file", "f", "", "take the modules from the middlewares and rings of an agent.yaml")
	f.StringVar(
		&c.upstream,
		"upstream",
		"",
		"the `URL` of the model API, without /v1 (default: $"+envAnthropic+", $"+envOpenAI+", else the vendors')",
	)
	f.BoolVar(&c.hold, "hold", false, "hold streamed answers until after_model has run")
	f.BoolVar(&c.quiet, "quiet", false, "do not print what the modules did")
	f.StringVar(
		&c.cacheDir,
		"cache-dir",
		"",
		"cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)",
	)
	return cmd
}

// run starts the gateway and the program, and waits for the program.
func (c *wrapper) run(ctx context.Context, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return cli.Usagef("wrap: %s: %w; is it installed?", args[0], cli.Bare(err))
	}
	f, err := c.routes(ctx)
	if err != nil {
		return err
	}
	network, err := c.modules.Network(c.env)
	if err != nil {
		return err
	}
	log := hosting.NewLogger(cli.NewScreen(c.env), false)
	h, _, err := hosting.NewHost(ctx, c.env, c.chosen, host.Options{CacheDir: c.cacheDir, Logger: log})
	if err != nil {
		return err
	}
	defer hosting.CloseHost(h)
	report := &report{}
	g, err := gateway.New(ctx, h, f, &gateway.Options{
		Modules: &host.FileOptions{Network: network, Getenv: c.env.Getenv, Logger: log}, OnEvent: report.event, Logger: log,
	})
	if err != nil {
		return err
	}
	defer g.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return cli.Ended(cli.ExitFailed, err)
	}
	s := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	err = c.start(ctx, path, args, "http://"+l.Addr().String())
	if !c.quiet {
		report.print(cli.NewScreen(c.env))
	}
	return err
}

// routes returns a gateway with one route for each protocol, all with the same modules.
func (c *wrapper) routes(ctx context.Context) (*gateway.File, error) {
	f := &agentfile.File{}
	if c.file != "" {
		var err error
		if f, err = agentfile.Load(c.file); err != nil {
			return nil, err
		}
		if err := hosting.BuildModules(ctx, c.env, f); err != nil {
			return nil, err
		}
	}
	if err := c.modules.Apply(ctx, c.env, f); err != nil {
		return nil, err
	}
	if len(hosting.Entries(f)) == 0 {
		return nil, cli.Usagef("wrap needs a module: -m MODULE, or -f with an agent.yaml that has some")
	}
	var routes []agentfile.GatewayRoute
	for _, protocol := range []string{agentfile.ProtocolMessages, agentfile.ProtocolResponses, agentfile.ProtocolChat} {
		r := agentfile.GatewayRoute{
			Hold:        c.hold,
			Secrets:     f.Secrets,
			Middlewares: slices.Clone(f.Middlewares),
			Rings:       f.Rings,
		}
		if err := r.Protocol.UnmarshalText([]byte(protocol)); err != nil {
			return nil, err
		}
		if at := c.upstreamOf(protocol); at != "" {
			if err := r.Upstream.UnmarshalText([]byte(at)); err != nil {
				return nil, cli.Usagef("the upstream %s: %v", hosting.RedactedLocation(at), err)
			}
		}
		routes = append(routes, r)
	}
	return agentfile.NewGateway(routes)
}

// upstreamOf returns the address of the API of a protocol, without /v1. It is "" for the vendor's own
// API.
func (c *wrapper) upstreamOf(protocol string) string {
	at := c.upstream
	switch {
	case at != "":
	case protocol == agentfile.ProtocolMessages:
		at = c.env.Getenv(envAnthropic)
	default:
		at = c.env.Getenv(envOpenAI)
	}
	return strings.TrimSuffix(strings.TrimSuffix(at, "/"), "/v1")
}

// start runs the program with the gateway's address. The program receives the signals of the terminal,
// and start waits until the program exits. If the exit code is not 0, start returns it as an error.
func (c *wrapper) start(ctx context.Context, path string, args []string, at string) error {
	name, rest := strings.TrimSuffix(args[0], ".exe"), args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if name = name[strings.LastIndexAny(name, `/\`)+1:]; name == "codex" {
		// Codex does not read the address of its built-in provider from the environment. With a
		// ChatGPT login it compresses requests by default.
		rest = append([]string{
			"-c", fmt.Sprintf("openai_base_url=%q", at+"/v1"), "-c", "features.enable_request_compression=false",
		}, rest...)
	}
	cmd := exec.CommandContext(ctx, path, rest...)
	cmd.Env = append(os.Environ(), envAnthropic+"="+at, envOpenAI+"="+at+"/v1", "OPENAI_API_BASE="+at+"/v1")
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // a proxy must not receive the requests to the gateway
		cmd.Env = append(cmd.Env, name+"="+strings.TrimPrefix(c.env.Getenv(name)+",127.0.0.1", ","))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env.In, c.env.Out, c.env.Err
	err := runSignaled(cmd)
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited) && exited.ExitCode() > 0:
		return cli.Exited(exited.ExitCode())
	case errors.As(err, &exited):
		if status, ok := exited.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return cli.Exited(128 + int(status.Signal()))
		}
		return cli.Exited(cli.ExitFailed)
	case err != nil:
		return cli.Ended(cli.ExitFailed, fmt.Errorf("%s: %w", args[0], err))
	}
	return nil
}

// runSignaled runs a program, and passes on the signals that would otherwise end this process. It
// does not pass on an interrupt, which the terminal sends to both.
func runSignaled(cmd *exec.Cmd) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				if s != os.Interrupt {
					_ = cmd.Process.Signal(s)
				}
			}
		}
	}()
	return cmd.Wait()
}
