package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/agentfile"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/egress"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/openai"
	"github.com/agent-runner/agent-runner/host/module"
	"github.com/agent-runner/agent-runner/host/sandbox"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
	"github.com/agent-runner/agent-runner/host/tool/mcp"
)

// The environment variables of endpoints.
const (
	EnvAPIKey  = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
)

// FileOptions say what an agent's file leaves open.
type FileOptions struct {
	// Model takes the place of the file's.
	Model model.Model
	// Tools take the place of the file's, whose servers are not started. Nil: they
	// do not.
	Tools []tool.Tool
	// WrapModel is around the model: a recorder, say. It may be nil.
	WrapModel func(model.Model) (model.Model, error)
	// Getenv reads keys and addresses of endpoints; os.Getenv when nil.
	Getenv func(string) string
	// Logger receives what MCP servers print, at level debug, and the file's numbers that are
	// lowered to their bounds, as warnings. Optional.
	Logger *slog.Logger

	// Journal keeps the agent's runs; nil: they end with the process.
	Journal *agent.JournalOptions
	// Values keep the durable values of modules, for Tenant; nil: there are none.
	Values chain.Values
	Tenant string
	// Network is what modules' requests may reach and need beside the grants and
	// secrets of the file; nil: public addresses, and nothing more.
	Network *egress.Options
	// GuardMCP holds MCP servers at urls to the hosts and addresses of Network, as
	// is right where somebody else wrote the file. Otherwise they may be anywhere.
	GuardMCP bool
	// StartMCP starts the commands of MCP servers in place of this process. Nil: this
	// process starts them.
	StartMCP mcp.Starter
	// GuardModels lets models be at public addresses alone, and at those that Network
	// allows, but for the one at ModelURL. Where somebody else wrote the file, or
	// gives its keys, models are not to be a way into the host's own network.
	GuardModels bool
	ModelURL    string
	// ModelFailed, unless it is nil, is called with what the model, or its endpoint, says
	// of a failed call. Runs then have only how it failed: what they store is for
	// somebody who may not know the operator's model.
	ModelFailed func(context.Context, *model.Request, *model.Error)
	// MayAsk says whether modules may choose a model; nil: as the file says.
	MayAsk func(model string) bool
	// MayPass says why modules may not pass a parameter of the model; nil: they may pass any.
	MayPass func(param string) error
	// Tracer is told of what the runs do; nil: nobody is.
	Tracer chain.Tracer
	// ReadModule reads the module of an entry in place of the file at path: where
	// it returns nothing that file is loaded. It is called for .wasm files alone. The
	// entries of an agent inside another's file have its name and a slash before theirs.
	ReadModule func(ctx context.Context, entry, path string) ([]byte, error)
	// LoadModule is ReadModule for modules that are loaded already, or shared: release is
	// called when the agent is closed, so that as long as it is kept who else wants the
	// module can share it. It is asked first; where it returns nothing the others are.
	LoadModule func(ctx context.Context, entry, path string, limits Limits) (m *Module, release func(), err error)
}

// NewAgentFromFile makes the agent that a file describes: it loads its
// modules, connects to its MCP servers, and makes a client of its model. What
// is wrong is told with its place in the file. The caller closes the agent.
func (h *Host) NewAgentFromFile(ctx context.Context, f *agentfile.File, o *FileOptions) (*Agent, error) {
	if o == nil {
		o = &FileOptions{}
	}
	for _, text := range f.Bound() {
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

// A builder makes one agent of a file.
type builder struct {
	host    *Host
	file    *agentfile.File
	opts    FileOptions
	slots   []*slot
	closers []func()

	around      *builder // of the agent in whose file it stands, if it does
	description string
	asked       model.Model // its model, once that is made
	http        *egress.Client
}

func (b *builder) closeModules() {
	for _, s := range b.slots {
		if s.release != nil {
			s.release()
		}
	}
}

// closeAll closes side by side: a server that does not end is waited for.
func closeAll(closers []func()) {
	var wg sync.WaitGroup
	for _, c := range closers {
		wg.Go(c)
	}
	wg.Wait()
}

func (b *builder) build(ctx context.Context) (*Agent, error) {
	f := b.file
	o := &AgentOptions{
		Name: f.Name, Description: b.description, ModelName: f.Model.Name, Params: f.Model.Params, Models: f.Limits.Models, MayAsk: b.opts.MayAsk, MayPass: b.opts.MayPass,
		Instruction: f.Instruction, ReturnDirectly: f.ReturnDirectly,
		Options: chain.Options{ContinueOnError: f.ContinueOnError, ContinueOnResponse: f.ContinueOnResponse,
			Values: b.opts.Values, Tenant: b.opts.Tenant, Tracer: b.opts.Tracer},
		Journal:  b.opts.Journal,
		MaxSteps: f.Limits.MaxSteps, Limits: callLimits(&f.Limits), Timeout: time.Duration(f.Limits.Timeout),
		PauseLimit: time.Duration(f.Limits.Pause),
		ToolLimit:  time.Duration(f.Limits.ToolTimeout), Parallel: f.Limits.Parallel,
		NoStream: f.Stream != nil && !*f.Stream,
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
	if o.Tools = b.opts.Tools; o.Tools == nil {
		if o.Tools, err = b.tools(ctx); err != nil {
			return nil, err
		}
	}
	inner, others, err := b.agents(ctx)
	if err != nil {
		return nil, err
	}
	if o.Tools, err = tool.Join(tool.Set{Owner: "the agent's tools", Tools: o.Tools}, tool.Set{Owner: "its agents", Tools: inner}); err != nil {
		return nil, b.file.ErrorAt("agents", err)
	}
	a, err := b.host.NewAgent(ctx, o)
	var config *module.ConfigError
	if errors.As(err, &config) {
		for _, s := range b.slots {
			if s.from.Name == config.Entry {
				return nil, b.file.ErrorAt(s.at+".config", err)
			}
		}
	}
	if err != nil || others == nil {
		return a, err
	}
	if err := circle(append([]*agent.Agent{a.Agent}, others...)); err != nil {
		a.Close()
		return nil, b.file.ErrorAt("agents", err)
	}
	return a, nil
}

// network makes what sends the modules' requests, once for all agents of a file.
func (b *builder) network() error {
	if b.around != nil {
		if len(b.file.Secrets) > 0 {
			return b.file.ErrorAt("secrets", errors.New("secrets are named in the outermost file, for all agents in it"))
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
			return b.file.ErrorAt(fmt.Sprintf("secrets[%d].env", i), fmt.Errorf("the environment variable %s, for the secret %s, is not set", s.Env, s.Name))
		}
		o.Secrets = append(o.Secrets, egress.Secret{Name: s.Name, Value: value, Hosts: s.Hosts})
	}
	var err error
	if b.http, err = egress.New(&o); err != nil {
		return b.file.ErrorAt("secrets", err)
	}
	b.closers = append(b.closers, b.http.Close)
	return nil
}

// A slot is one entry of the file.
type slot struct {
	at   string // where it stands: middlewares[0]
	from *agentfile.Middleware
	to   *[]Middleware // its ring

	module  *Module
	release func() // what is called when the entry is configured, which goes on without it
	shared  func() // what is called when the agent is closed
	err     error
}

func (b *builder) place(o *AgentOptions) {
	f := b.file
	for _, ring := range []struct {
		path string
		from []agentfile.Middleware
		to   *[]Middleware
	}{{"rings.outer", f.Rings.Outer, &o.Outer}, {"middlewares", f.Middlewares, &o.Middlewares}, {"rings.inner", f.Rings.Inner, &o.Inner}} {
		for i := range ring.from {
			b.slots = append(b.slots, &slot{at: fmt.Sprintf("%s[%d]", ring.path, i), from: &ring.from[i], to: ring.to})
		}
	}
}

// load loads the modules side by side, since compiling one takes a while, and
// puts each into its ring.
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
			return b.file.ErrorAt(s.at+".module", s.err)
		}
		grants, err := s.from.ModuleGrants()
		if err != nil {
			return b.file.ErrorAt(s.at+".grants", err)
		}
		*s.to = append(*s.to, Middleware{Name: s.from.Name, Module: s.module, Config: s.from.Config,
			Grants: grants, OnFault: chain.OnFault(s.from.OnFault)})
	}
	return nil
}

func callLimits(l *agentfile.Limits) agent.Limits {
	return agent.Limits{ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Tools: l.Tools, JournalBytes: l.JournalBytes,
		OnLimit: agent.OnLimit(l.OnLimit), OnToolLimit: agent.OnLimit(l.OnToolLimit)}
}

// sharedModule is the module of an entry that somebody else loaded, or nil.
func (b *builder) sharedModule(ctx context.Context, s *slot) (*Module, func(), error) {
	path := string(s.from.Module)
	if b.opts.LoadModule == nil || !strings.EqualFold(filepath.Ext(path), ".wasm") {
		return nil, nil, nil
	}
	return b.opts.LoadModule(ctx, b.entry(s), path, ModuleLimits(&s.from.Limits))
}

// entry names an entry for whoever reads modules.
func (b *builder) entry(s *slot) string {
	if b.around != nil {
		return b.file.Name + "/" + s.from.Name
	}
	return s.from.Name
}

func (b *builder) loadModule(ctx context.Context, s *slot) (*Module, error) {
	path, limits := string(s.from.Module), ModuleLimits(&s.from.Limits)
	if b.opts.ReadModule != nil && strings.EqualFold(filepath.Ext(path), ".wasm") {
		wasm, err := b.opts.ReadModule(ctx, b.entry(s), path)
		switch {
		case err != nil:
			return nil, err
		case wasm != nil:
			return b.host.LoadBytes(ctx, path, wasm, limits)
		}
	}
	return b.host.Load(ctx, path, limits)
}

// ModuleLimits are the limits that a file gives a module; what it leaves out is zero,
// which stands for the default.
func ModuleLimits(l *agentfile.ModuleLimits) Limits {
	return Limits{
		Limits: sandbox.Limits{
			ModuleBytes: int64(l.ModuleBytes), MemoryBytes: int64(l.Memory), HookTime: time.Duration(l.Timeout),
			Fuel: l.Fuel, StackBytes: int64(l.StackBytes),
			Nesting: l.Nesting, LogBytes: int(l.LogBytes), LogLineBytes: int(l.LogLineBytes),
		},
		InputBytes: int(l.InputBytes), OutputBytes: int(l.OutputBytes), ReplyBytes: int(l.ReplyBytes),
		HostCalls: l.HostCalls, RunFuel: l.RunFuel, Instances: l.Instances,
	}
}

// model is what the options give, or the file's endpoint with retries and
// fallbacks. An agent in another's file that has no model of its own asks that
// one's.
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

// sameModel reports whether both are one model at one address.
func sameModel(a, b *agentfile.Model) bool {
	return a.Endpoint == b.Endpoint && a.Retries == b.Retries && slices.Equal(a.Fallbacks, b.Fallbacks)
}

// wrap puts the options' wrapper around a model, once for all agents of a file.
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
		return b.opts.WrapModel(&switchboard{m})
	}
}

func (b *builder) endpoints() (model.Model, error) {
	f := &b.file.Model
	if f.Name == "" {
		return nil, b.file.ErrorAt("model", errors.New("the agent has no model: name one, model: {name: …}"))
	}
	base := cmp.Or(string(f.BaseURL), b.opts.Getenv(EnvBaseURL))
	key := b.opts.Getenv(cmp.Or(f.APIKeyEnv, EnvAPIKey))
	switch {
	case key == "" && f.APIKeyEnv != "":
		return nil, b.file.ErrorAt("model.api_key_env", fmt.Errorf("the environment variable %s, for the key of %s, is not set", f.APIKeyEnv, f.Name))
	case key == "" && base == "":
		return nil, fmt.Errorf("no key for %s: set %s, or name an endpoint that needs none as base URL", f.Name, EnvAPIKey)
	}
	first, err := b.endpoint(base, key)
	if err != nil {
		return nil, b.file.ErrorAt("model.base_url", err)
	}
	choices := []model.Choice{{Model: first}}
	for i, fallback := range f.Fallbacks {
		at := fmt.Sprintf("model.fallbacks[%d]", i)
		address, secret := base, key
		if fallback.BaseURL != "" {
			address, secret = string(fallback.BaseURL), "" // a key is for the endpoint that it was given for
		}
		if env := fallback.APIKeyEnv; env != "" {
			if secret = b.opts.Getenv(env); secret == "" {
				return nil, b.file.ErrorAt(at+".api_key_env", fmt.Errorf("the environment variable %s, for the key of %s, is not set", env, fallback.Name))
			}
		}
		m, err := b.endpoint(address, secret)
		if err != nil {
			return nil, b.file.ErrorAt(at, err)
		}
		choices = append(choices, model.Choice{Model: m, Name: fallback.Name})
	}
	if len(choices) == 1 {
		return first, nil
	}
	return model.WithFallback(choices, nil), nil
}

// endpoint is a client with retries.
func (b *builder) endpoint(base, key string) (model.Model, error) {
	o := openai.Options{BaseURL: base, APIKey: key}
	if b.opts.GuardModels && base != b.opts.ModelURL {
		guard, err := b.guardedModels()
		if err != nil {
			return nil, err
		}
		o.HTTPClient = &http.Client{Transport: guard}
	}
	c, err := openai.New(o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	retries := 0
	if r := b.file.Model.Retries; r != nil {
		retries = cmp.Or(*r, -1)
	}
	return model.WithRetry(b.private(c), model.RetryOptions{MaxRetries: retries}), nil
}

// private returns m without what its errors say of its endpoint, if the options ask for
// it.
func (b *builder) private(m model.Model) model.Model {
	if b.opts.ModelFailed == nil {
		return m
	}
	return model.Private(m, b.opts.ModelFailed)
}

// guardedModels is the way to models that somebody else chose.
func (b *builder) guardedModels() (http.RoundTripper, error) {
	o := &egress.Options{}
	if b.opts.Network != nil {
		o.Private, o.Resolver, o.RootCAs = b.opts.Network.Private, b.opts.Network.Resolver, b.opts.Network.RootCAs
	}
	c, err := egress.New(o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	return c.Guard(), nil
}

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
		return nil, b.file.ErrorAt("tools", err)
	}
	sets := []tool.Set{{Owner: "the built-in tools", Tools: own}}
	for i := range f.MCP {
		set, err := b.connect(ctx, &f.MCP[i])
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, b.file.ErrorAt(fmt.Sprintf("tools.mcp[%d]", i), err)
		}
		sets = append(sets, *set)
	}
	tools, err := tool.Join(sets...)
	if err != nil {
		return nil, b.file.ErrorAt("tools", err)
	}
	for i, name := range f.Idempotent {
		at := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Declaration().Name == name })
		if at < 0 {
			return nil, b.file.ErrorAt(fmt.Sprintf("tools.idempotent[%d]", i), fmt.Errorf("there is no tool %q", name))
		}
		tools[at] = tool.Idempotent(tools[at])
	}
	return tools, nil
}

// slow is after what time it is told that an MCP server is waited for.
const slow = 2 * time.Second

func (b *builder) connect(ctx context.Context, s *agentfile.MCPServer) (*tool.Set, error) {
	o := &mcp.Options{Name: s.Name, Command: s.Command, Dir: s.Dir, URL: string(s.URL), Starter: b.opts.StartMCP, Logger: b.opts.Logger}
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
	o.Timeout = cmp.Or(time.Duration(s.Timeout), mcp.DefaultTimeout)
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
	return &tool.Set{Owner: server.String(), Tools: tools}, nil
}
