package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
	"github.com/agent-runner/agent-runner/host/tool/mcp"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// FileOptions configure an agent beyond its file.
type FileOptions struct {
	// Model, if not nil, replaces the file's model.
	Model model.Model
	// Tools, if not nil, replaces the file's tools. The file's MCP servers are then not
	// started.
	Tools []tool.Tool
	// ToolsOf, if not nil, returns the tools of the agent or sub-agent with the given name, and
	// replaces Tools. The name is empty if the file does not name the agent.
	ToolsOf func(agent string) []tool.Tool
	// WrapModel, if not nil, wraps the model, for example in a recorder.
	WrapModel func(model.Model) (model.Model, error)
	// Getenv returns the value of an environment variable: of a key, a secret, or the default base
	// URL of models. The default is os.Getenv.
	Getenv func(string) string
	// Logger receives the output of MCP servers at level debug, and warnings about limits of the
	// file that are lowered to their bounds. It may be nil.
	Logger *slog.Logger

	// Journal, if not nil, journals the agent's runs. Without a journal, runs end with the process.
	Journal *JournalOptions
	// Values stores the durable values of modules, for Tenant. If Values is nil, modules have no
	// durable values.
	Values hook.Values
	Tenant string
	// Network sets the addresses and secrets of modules' requests in addition to the grants
	// and secrets of the file. The default is public addresses and no secrets.
	Network *Network
	// GuardMCP applies the checks of modules' URLs to the URLs of MCP servers: the address must be
	// public or in Network.Private and, if Network.Hosts is set, the host must be in it. Set GuardMCP
	// if the file is untrusted. By default, these requests are not checked.
	GuardMCP bool
	// StartMCP starts the commands of MCP servers. By default, this process starts them.
	StartMCP procgroup.Starter
	// GuardModels restricts model endpoints to public addresses and those that Network allows, except
	// for the endpoints in ModelURLs. Set it if the file or its keys are untrusted, so that models do
	// not give access to the host's own network.
	GuardModels bool
	ModelURLs   []string
	// ModelFailed, if not nil, receives the full errors of failed model calls. Runs then
	// record only the kind of failure, because their readers must not receive details of the
	// operator's model.
	ModelFailed func(context.Context, *model.Request, *model.Error)
	// AllowModel, if not nil, reports whether modules may choose a model. The file must also allow the model.
	AllowModel func(model string) bool
	// CheckParam returns an error if modules may not set a parameter of the model. By default,
	// they may set any.
	CheckParam func(param string) error
	// Tracer, if not nil, observes the operations of runs.
	Tracer Tracer
	// ReadModule, if not nil, returns the content of an entry's module: a .wasm file, or a script
	// that Loader.BundleScript bundled. If the content is nil, the file at path is loaded.
	// ReadModule is not called for Extism manifests. For an entry of a sub-agent, the entry's name
	// is prefixed with the sub-agent's name and a slash.
	ReadModule func(ctx context.Context, entry, path string) ([]byte, error)
	// LoadModule, if not nil, returns an already loaded module of an entry, which other agents
	// can share. release is called when the agent is closed. If LoadModule returns a nil module,
	// ReadModule and the file are used. LoadModule is called only for .wasm files.
	LoadModule func(ctx context.Context, entry, path string, limits Limits) (m *Module, release func(), err error)
}

// NewAgentFromFile creates the agent that a file describes: it loads its modules, connects to its
// MCP servers, and creates a client for its model. Errors about the file have positions in it.
// The caller must close the agent.
func (h *Host) NewAgentFromFile(ctx context.Context, f *AgentFile, o *FileOptions) (*Agent, error) {
	if o == nil {
		o = &FileOptions{}
	}
	for _, text := range agentfile.BoundFields(f) {
		if o.Logger != nil {
			o.Logger.Warn("a limit of the agent is lowered", slog.String("agent", f.Name), slog.String("limit", text))
		}
	}
	b := &builder{host: h, file: f, opts: *o}
	if b.opts.Getenv == nil {
		b.opts.Getenv = os.Getenv
	}
	defer b.closeModules()
	a, err := b.build(ctx)
	if err != nil {
		closeAll(b.closers)
		return nil, err
	}
	a.closers = b.closers
	return a, nil
}

// NewChainFromFile creates the chain of the modules that a file names. It ignores the file's model,
// tools and sub-agents, and the options about them. Errors about the file have positions in it. The
// caller must close the chain.
func (h *Host) NewChainFromFile(ctx context.Context, f *AgentFile, o *FileOptions) (*Chain, error) {
	if o == nil {
		o = &FileOptions{}
	}
	b := &builder{host: h, file: f, opts: *o}
	if b.opts.Getenv == nil {
		b.opts.Getenv = os.Getenv
	}
	defer b.closeModules()
	c, err := b.chain(ctx)
	if err != nil {
		closeAll(b.closers)
		return nil, err
	}
	c.closers = b.closers
	return c, nil
}

// chain creates the chain of b.file.
func (b *builder) chain(ctx context.Context) (*Chain, error) {
	if err := b.network(); err != nil {
		return nil, err
	}
	var o AgentOptions
	b.place(&o)
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	c, err := b.host.NewChain(ctx, &ChainOptions{
		Middlewares:        o.Middlewares,
		Outer:              o.Outer,
		Inner:              o.Inner,
		ContinueOnError:    b.file.ContinueOnError,
		ContinueOnResponse: b.file.ContinueOnResponse,
		Values:             b.opts.Values,
		Tenant:             b.opts.Tenant,
		HTTP:               b.http,
		Tracer:             b.opts.Tracer,
	})
	return c, b.configError(err)
}

// configError adds a position in the file to err if err is about the configuration of an entry.
func (b *builder) configError(err error) error {
	var config *module.ConfigError
	if errors.As(err, &config) {
		for _, s := range b.slots {
			if s.from.Name == config.Entry {
				return agentfile.ErrorAt(b.file, s.at+".config", err)
			}
		}
	}
	return err
}

// A builder builds one agent of a file.
type builder struct {
	host    *Host
	file    *agentfile.File
	opts    FileOptions
	slots   []*slot
	closers []func()

	around      *builder // the builder of the enclosing agent, or nil
	description string
	asked       model.Model // the agent's model, once created
	http        *egress.Client
}

func (b *builder) closeModules() {
	for _, s := range b.slots {
		if s.release != nil {
			s.release()
		}
	}
}

// closeAll calls closers concurrently, since closing an MCP server can take time.
func closeAll(closers []func()) {
	var wg sync.WaitGroup
	for _, c := range closers {
		wg.Go(c)
	}
	wg.Wait()
}

// build creates the agent of b.file with its model, modules, tools and sub-agents. The caller must
// call closers when the agent is closed or if build fails.
func (b *builder) build(ctx context.Context) (*Agent, error) {
	f := b.file
	o := &AgentOptions{
		Name:               f.Name,
		Description:        b.description,
		ModelName:          f.Model.Name,
		Params:             f.Model.Params,
		Models:             f.Limits.Models,
		AllowModel:         b.opts.AllowModel,
		CheckParam:         b.opts.CheckParam,
		Instruction:        f.Instruction,
		ReturnDirectly:     f.ReturnDirectly,
		ContinueOnError:    f.ContinueOnError,
		ContinueOnResponse: f.ContinueOnResponse,
		Values:             b.opts.Values,
		Tenant:             b.opts.Tenant,
		Tracer:             b.opts.Tracer,
		Journal:            b.opts.Journal,
		MaxSteps:           f.Limits.MaxSteps,
		Limits:             callLimits(&f.Limits),
		Timeout:            time.Duration(f.Limits.Timeout),
		PauseTimeout:       time.Duration(f.Limits.Pause),
		ToolTimeout:        time.Duration(f.Limits.ToolTimeout),
		Parallel:           f.Limits.Parallel,
		NoStream:           f.Stream != nil && !*f.Stream,
		KeepOrphanResults:  f.KeepOrphanResults,
	}
	var err error
	if o.Model, err = b.model(); err != nil {
		return nil, err
	}
	if err := b.network(); err != nil {
		return nil, err
	}
	o.HTTP = b.http
	b.place(o)
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	switch {
	case b.opts.ToolsOf != nil:
		o.Tools = b.opts.ToolsOf(f.Name)
	case b.opts.Tools != nil:
		o.Tools = b.opts.Tools
	default:
		if o.Tools, err = b.tools(ctx); err != nil {
			return nil, err
		}
	}
	inner, others, err := b.agents(ctx)
	if err != nil {
		return nil, err
	}
	own, agents := toolSet{Owner: "the agent's tools", Tools: o.Tools}, toolSet{Owner: "its agents", Tools: inner}
	if o.Tools, err = joinTools(own, agents); err != nil {
		return nil, agentfile.ErrorAt(b.file, "agents", err)
	}
	a, err := b.host.NewAgent(ctx, o)
	if err != nil || others == nil {
		return a, b.configError(err)
	}
	if err := cycle(append([]*agent.Agent{a.Agent}, others...)); err != nil {
		a.Close()
		return nil, agentfile.ErrorAt(b.file, "agents", err)
	}
	return a, nil
}

// network creates the HTTP client for modules' requests, once for all agents of a file.
func (b *builder) network() error {
	if b.around != nil {
		if len(b.file.Secrets) > 0 {
			return agentfile.ErrorAt(
				b.file,
				"secrets",
				errors.New("secrets are named in the outermost file, for all agents in it"),
			)
		}
		b.http = b.around.http
		return nil
	}
	var o egress.Options
	if b.opts.Network != nil {
		o = *b.opts.Network
	}
	o.Secrets = slices.Clone(o.Secrets)
	for i, s := range b.file.Secrets {
		value := b.opts.Getenv(s.Env)
		if value == "" {
			return agentfile.ErrorAt(b.file, fmt.Sprintf("secrets[%d].env", i),
				fmt.Errorf("the environment variable %s, for the secret %s, is not set", s.Env, s.Name))
		}
		o.Secrets = append(o.Secrets, egress.Secret{Name: s.Name, Value: value, Hosts: s.Hosts})
	}
	var err error
	if b.http, err = egress.New(&o); err != nil {
		return agentfile.ErrorAt(b.file, "secrets", err)
	}
	b.closers = append(b.closers, b.http.Close)
	return nil
}

// A slot is an entry of the file whose module is being loaded.
type slot struct {
	at   string // the path of the entry, such as middlewares[0]
	from *agentfile.Middleware
	to   *[]Middleware // the list to which load adds the middleware

	module  *Module
	release func() // releases the module once the agent is built; the agent's entry holds its own reference
	shared  func() // called when the agent is closed
	err     error
}

// place adds a slot for each module entry of the file. load then adds the modules to the lists of o.
func (b *builder) place(o *AgentOptions) {
	f := b.file
	for _, ring := range []struct {
		path string
		from []agentfile.Middleware
		to   *[]Middleware
	}{
		{"rings.outer", f.Rings.Outer, &o.Outer},
		{"middlewares", f.Middlewares, &o.Middlewares},
		{"rings.inner", f.Rings.Inner, &o.Inner},
	} {
		for i := range ring.from {
			b.slots = append(b.slots, &slot{at: fmt.Sprintf("%s[%d]", ring.path, i), from: &ring.from[i], to: ring.to})
		}
	}
}

// load loads the modules concurrently, since compiling takes time, and adds each to its
// ring.
func (b *builder) load(ctx context.Context) error {
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, s := range b.slots {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if s.module, s.shared, s.err = b.sharedModule(ctx, s); s.module != nil || s.err != nil {
				return
			}
			if s.module, s.err = b.loadModule(ctx, s); s.err == nil {
				s.release = s.module.Close
			}
		})
	}
	wg.Wait()
	for _, s := range b.slots {
		if s.shared != nil {
			b.closers = append(b.closers, s.shared)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, s := range b.slots {
		if s.err != nil {
			return agentfile.ErrorAt(b.file, s.at+".module", s.err)
		}
		grants, err := s.from.ModuleGrants()
		if err != nil {
			return agentfile.ErrorAt(b.file, s.at+".grants", err)
		}
		when := When(s.from.When)
		if err := hook.CheckEffect(&when, s.module.Info().Hooks); err != nil {
			return agentfile.ErrorAt(b.file, s.at+".when", fmt.Errorf("when: %w", err))
		}
		*s.to = append(*s.to, Middleware{Name: s.from.Name, Module: s.module, Config: s.from.Config,
			Grants: grants, OnFault: hook.OnFault(s.from.OnFault), When: when})
	}
	return nil
}

func callLimits(l *agentfile.Limits) agent.Limits {
	return agent.Limits{ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Tools: l.Tools, JournalBytes: l.JournalBytes,
		OnLimit: agent.OnLimit(l.OnLimit), OnToolLimit: agent.OnLimit(l.OnToolLimit)}
}

// sharedModule returns the module that LoadModule returns for an entry, and its release function. It
// returns nil if LoadModule is not set or if the entry's module is not a .wasm file.
func (b *builder) sharedModule(ctx context.Context, s *slot) (*Module, func(), error) {
	path := string(s.from.Module)
	if b.opts.LoadModule == nil || !strings.EqualFold(filepath.Ext(path), ".wasm") {
		return nil, nil, nil
	}
	return b.opts.LoadModule(ctx, b.entry(s), path, s.from.Limits.Policy())
}

// entry returns the name of an entry in the form that ReadModule and LoadModule receive.
func (b *builder) entry(s *slot) string {
	if b.around != nil {
		return b.file.Name + "/" + s.from.Name
	}
	return s.from.Name
}

func (b *builder) loadModule(ctx context.Context, s *slot) (*Module, error) {
	path, limits := string(s.from.Module), s.from.Limits.Policy()
	if b.opts.ReadModule != nil && !strings.EqualFold(filepath.Ext(path), ".json") {
		content, err := b.opts.ReadModule(ctx, b.entry(s), path)
		switch {
		case err != nil:
			return nil, err
		case content != nil:
			return b.host.LoadBytes(ctx, path, content, limits)
		}
	}
	return b.host.Load(ctx, path, limits)
}

// model returns the model of the options, or else the file's endpoint with retries and fallbacks. A
// sub-agent shares the model of the enclosing agent if the options have a model, or if both files
// describe the same one.
func (b *builder) model() (m model.Model, err error) {
	switch {
	case b.around != nil && (b.opts.Model != nil || sameModel(&b.file.Model, &b.around.file.Model)):
		m = b.around.asked
	case b.opts.Model != nil:
		m, err = b.wrap(b.private(b.opts.Model))
	default:
		if m, err = b.endpoints(); err == nil {
			m, err = b.wrap(m)
		}
	}
	b.asked = m
	return m, err
}

// sameModel reports whether a and b have the same endpoint, retries and fallbacks.
func sameModel(a, b *agentfile.Model) bool {
	return a.Endpoint == b.Endpoint && a.Retries == b.Retries && slices.Equal(a.Fallbacks, b.Fallbacks)
}

// wrap returns m with the effect of WrapModel. For the outermost agent, it calls WrapModel. For a
// sub-agent, it returns a model whose calls go through the wrapped model of the outermost agent to
// m.
func (b *builder) wrap(m model.Model) (model.Model, error) {
	root := b
	for root.around != nil {
		root = root.around
	}
	switch {
	case b.opts.WrapModel == nil:
		return m, nil
	case b != root:
		return &extension{root.asked, m}, nil
	default:
		return b.opts.WrapModel(&modelRouter{m})
	}
}

// tools connects to the file's MCP servers. It returns the file's built-in tools and the tools of
// these servers.
func (b *builder) tools(ctx context.Context) ([]tool.Tool, error) {
	f := &b.file.Tools
	o := &builtin.Options{Root: string(f.Root)}
	if f.Builtin != nil {
		o.Tools = []string{}
		for _, name := range *f.Builtin {
			o.Tools = append(o.Tools, string(name))
		}
	}
	own, err := builtin.Set(o)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, "tools", err)
	}
	sets := []toolSet{{Owner: "the built-in tools", Tools: own}}
	for i := range f.MCP {
		set, err := b.connect(ctx, &f.MCP[i])
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, agentfile.ErrorAt(b.file, fmt.Sprintf("tools.mcp[%d]", i), err)
		}
		sets = append(sets, *set)
	}
	tools, err := joinTools(sets...)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, "tools", err)
	}
	for i, name := range f.Idempotent {
		at := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Declaration().Name == name })
		if at < 0 {
			return nil, agentfile.ErrorAt(
				b.file,
				fmt.Sprintf("tools.idempotent[%d]", i),
				fmt.Errorf("there is no tool %q", name),
			)
		}
		tools[at] = tool.Idempotent(tools[at])
	}
	return tools, nil
}

// mcpTimeout bounds connecting to an MCP server, and again listing its tools, if the file sets no timeout.
const mcpTimeout = 10 * time.Second

// slow is the time after which waiting for an MCP server is logged.
const slow = 2 * time.Second

// connect starts or connects to an MCP server and returns its tools. Closing the agent closes the
// server.
func (b *builder) connect(ctx context.Context, s *agentfile.MCPServer) (*toolSet, error) {
	o := &mcp.Options{
		Name:    s.Name,
		Command: s.Command,
		Dir:     s.Dir,
		URL:     string(s.URL),
		Starter: b.opts.StartMCP,
		Logger:  b.opts.Logger,
	}
	for name, value := range s.Env {
		o.Env = append(o.Env, name+"="+value)
	}
	if b.opts.GuardMCP {
		o.Guard = b.http.Guard()
	}
	if s.APIKeyEnv != "" {
		key := b.opts.Getenv(s.APIKeyEnv)
		if key == "" {
			return nil, fmt.Errorf("the environment variable %s, for the key of MCP server %s, is not set", s.APIKeyEnv, s.Name)
		}
		o.Headers = map[string]string{"Authorization": "Bearer " + key}
	}
	o.Timeout = cmp.Or(time.Duration(s.Timeout), mcpTimeout)
	if log := b.opts.Logger; log != nil {
		defer time.AfterFunc(slow, func() {
			log.Warn("an MCP server has not answered yet", "server", s.Name, "waiting up to", o.Timeout)
		}).Stop()
	}
	server, err := mcp.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() { _ = server.Close() })
	tools, err := server.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return &toolSet{Owner: server.String(), Tools: tools}, nil
}
