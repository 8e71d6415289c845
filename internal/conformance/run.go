package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// agentFile is what a case's agent.yaml may say: a part of what the command reads.
type agentFile struct {
	Instruction    string        `yaml:"instruction"`
	ReturnDirectly []string      `yaml:"return_directly"`
	Stream         *bool         `yaml:"stream"`
	Middlewares    []entryFile   `yaml:"middlewares"`
	Limits         limitsFile    `yaml:"limits"`
	Timeout        time.Duration `yaml:"timeout"`
	Model          modelFile     `yaml:"model"`
	Runs           int           `yaml:"runs"` // how often it is run with the same messages

	ContinueOnError    bool `yaml:"continue_on_error"`
	ContinueOnResponse bool `yaml:"continue_on_response"`
}

type modelFile struct {
	Retries   int `yaml:"retries"`
	Fallbacks []struct {
		Name string `yaml:"name"`
	} `yaml:"fallbacks"`
}

type limitsFile struct {
	MaxSteps    int            `yaml:"max_steps"`
	ModelCalls  int            `yaml:"model_calls"`
	ToolCalls   int            `yaml:"tool_calls"`
	Tools       map[string]int `yaml:"tools"`
	OnLimit     agent.OnLimit  `yaml:"on_limit"`
	OnToolLimit agent.OnLimit  `yaml:"on_tool_limit"`
}

func (l *limitsFile) calls() agent.Limits {
	return agent.Limits{ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Tools: l.Tools, OnLimit: l.OnLimit, OnToolLimit: l.OnToolLimit}
}

type entryFile struct {
	Module  string         `yaml:"module"` // NAME.go, or NAME.wasm of testdata/modules
	Name    string         `yaml:"name"`
	Ring    string         `yaml:"ring"`
	OnFault string         `yaml:"on_fault"`
	Read    string         `yaml:"read"`
	Config  map[string]any `yaml:"config"`
}

// A Middlewares makes the middleware of an entry: for a module of the case
// the suite's, told by its configuration which it is.
type Middlewares interface {
	// Go is the suite's module, configured as one of its middlewares.
	Go(ctx context.Context, entry string, config json.RawMessage) (chain.Middleware, error)
	// Wasm is a module of testdata/modules.
	Wasm(ctx context.Context, entry, file string, config json.RawMessage) (chain.Middleware, error)
}

// An Outcome is what a case came to.
type Outcome struct {
	Events   []abi.Event
	Requests []request
	State    []abi.Message
	Err      error // the start was refused
}

type request struct {
	messages []abi.Message
	tools    []string
	model    string
	params   abi.Params
}

// Run runs the case once.
func (c *Case) Run(ctx context.Context, s *Suite, ms Middlewares) (*Outcome, error) {
	file := agentFile{}
	if err := yaml.UnmarshalWithOptions(c.Agent, &file, yaml.Strict()); err != nil && len(bytes.TrimSpace(c.Agent)) > 0 {
		return nil, fmt.Errorf("agent.yaml: %w", err)
	}
	out := &Outcome{}
	entries, err := c.entries(ctx, s, ms, &file)
	if err != nil {
		out.Err = err
		return out, nil
	}
	entries = append(entries, chain.Entry{Name: "the-case", Ring: chain.Outer, Middleware: lookAtState(&out.State)})
	ch, err := chain.New(entries...)
	if err != nil {
		out.Err = err
		return out, nil
	}
	ch = ch.With(chain.Options{ContinueOnError: file.ContinueOnError, ContinueOnResponse: file.ContinueOnResponse})
	m := scripted.New(c.Replies...)
	p := &player{told: map[string]chan struct{}{}, calls: map[string]int{}}
	a, err := agent.New(&agent.Options{Model: file.Model.around(m), ModelName: "scripted", Instruction: file.Instruction, Tools: c.tools(p),
		ReturnDirectly: file.ReturnDirectly, Chain: ch, MaxSteps: file.Limits.MaxSteps, Limits: file.Limits.calls(), Timeout: file.Timeout,
		NoStream: file.Stream != nil && !*file.Stream})
	if err != nil {
		out.Err = err
		return out, nil
	}
	for range max(1, file.Runs) {
		if err := p.play(ctx, c, a, out); err != nil {
			return nil, err
		}
	}
	for _, r := range m.Requests() {
		seen := request{messages: r.Messages, model: r.Model, params: r.Params}
		for _, t := range r.Tools {
			seen.tools = append(seen.tools, t.Name)
		}
		out.Requests = append(out.Requests, seen)
	}
	return out, nil
}

// around is m with the file's retries, which do not pause, and fallbacks.
func (f *modelFile) around(m model.Model) model.Model {
	if f.Retries > 0 {
		m = model.WithRetry(m, model.RetryOptions{MaxRetries: f.Retries, Sleep: func(context.Context, time.Duration) error { return nil }})
	}
	if len(f.Fallbacks) == 0 {
		return m
	}
	choices := []model.Choice{{Model: m}}
	for _, other := range f.Fallbacks {
		choices = append(choices, model.Choice{Model: m, Name: other.Name})
	}
	return model.WithFallback(choices, nil)
}

// lookAtState is a native middleware that notes the messages at the end.
func lookAtState(messages *[]abi.Message) *chain.Native {
	return &chain.Native{AfterAgent: func(_ context.Context, c *chain.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
		*messages = c.List(abi.ListState).All()
		return nil, nil
	}}
}

// entries are those that agent.yaml names, or one for each module.
func (c *Case) entries(ctx context.Context, s *Suite, ms Middlewares, file *agentFile) ([]chain.Entry, error) {
	if file.Middlewares == nil {
		for _, name := range sortedKeys(c.Modules) {
			file.Middlewares = append(file.Middlewares, entryFile{Module: name + ".go"})
		}
	}
	var out []chain.Entry
	for _, f := range file.Middlewares {
		e, err := c.entry(ctx, s, ms, f)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *Case) entry(ctx context.Context, s *Suite, ms Middlewares, f entryFile) (chain.Entry, error) {
	stem, kind, _ := strings.Cut(f.Module, ".")
	e := chain.Entry{Name: f.Name, Ring: chain.Tenant, OnFault: chain.OnFault(f.OnFault), Read: chain.Read(f.Read)}
	if e.Name == "" {
		e.Name = stem
	}
	switch f.Ring {
	case "", "tenant":
	case "outer":
		e.Ring = chain.Outer
	case "inner":
		e.Ring = chain.Inner
	default:
		return e, fmt.Errorf("no ring %q", f.Ring)
	}
	config, err := abi.Marshal(f.Config)
	if err != nil {
		return e, err
	}
	if f.Config == nil {
		config = nil
	}
	if kind == "wasm" {
		e.Middleware, err = ms.Wasm(ctx, e.Name, f.Module, config)
		return e, err
	}
	hooks, ok := s.Hooks[c.Name+"/"+stem]
	if !ok {
		return e, fmt.Errorf("the case has no module %q", f.Module)
	}
	for _, h := range hooks {
		e.Hooks = append(e.Hooks, abi.Hook(h))
	}
	use, err := abi.Marshal(map[string]any{"use": c.Name + "/" + stem, "config": json.RawMessage(orNull(config))})
	if err != nil {
		return e, err
	}
	e.Middleware, err = ms.Go(ctx, e.Name, use)
	return e, err
}

func orNull(b []byte) []byte {
	if b == nil {
		return []byte("null")
	}
	return b
}

// Got writes what came out, for each expectation of the case.
func (c *Case) Got(o *Outcome) ([]string, error) {
	var out []string
	for _, s := range c.Expect {
		text, err := o.section(s)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

func (o *Outcome) section(s Section) (string, error) {
	switch s.Kind {
	case "error":
		if o.Err == nil {
			return "the start was not refused", nil
		}
		return o.Err.Error(), nil
	case "events":
		return o.events(s.Arg), nil
	case "state":
		return formatMessages(o.State), nil
	case "asked":
		return o.asked(), nil
	}
	if o.Err != nil {
		return "the start was refused: " + o.Err.Error(), nil
	}
	n, err := strconv.Atoi(s.Arg)
	if err != nil || n < 1 {
		return "", fmt.Errorf("%s %s: want a number from 1", s.Kind, s.Arg)
	}
	if n > len(o.Requests) {
		return fmt.Sprintf("the model was asked %d times", len(o.Requests)), nil
	}
	if s.Kind == "told" {
		return strings.Join(o.Requests[n-1].tools, ", "), nil
	}
	return formatMessages(o.Requests[n-1].messages), nil
}

func (o *Outcome) asked() string {
	var b strings.Builder
	for _, r := range o.Requests {
		b.WriteString(r.model)
		if len(r.params) > 0 {
			params, _ := abi.Marshal(r.params)
			b.WriteString(" " + string(params))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (o *Outcome) events(types string) string {
	if o.Err != nil {
		return "the start was refused: " + o.Err.Error()
	}
	if types == "" {
		types = "message,tool_call,tool_result,custom,fault,run_paused,run_finished"
	}
	var b strings.Builder
	for _, e := range o.Events {
		if slices.Contains(strings.Split(types, ","), string(e.Type)) {
			b.WriteString(FormatEvent(e) + "\n")
		}
	}
	return b.String()
}

func formatMessages(messages []abi.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(FormatMessage(m) + "\n")
	}
	return b.String()
}

// Same reports whether what came out is what was expected.
func (s Section) Same(got string) bool {
	want := strings.TrimSpace(s.Text)
	if s.Kind == "error" {
		return strings.Contains(got, want)
	}
	return want == strings.TrimSpace(got)
}
