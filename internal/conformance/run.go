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
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

// agentFile is a case's agent.yaml. It supports a part of the command's format, and keys for tests.
type agentFile struct {
	Instruction    string        `yaml:"instruction"`
	ReturnDirectly []string      `yaml:"return_directly"`
	Stream         *bool         `yaml:"stream"`
	Middlewares    []entryFile   `yaml:"middlewares"`
	Limits         limitsFile    `yaml:"limits"`
	Timeout        time.Duration `yaml:"timeout"`
	Model          modelFile     `yaml:"model"`
	Runs           int           `yaml:"runs"` // number of runs with the same messages

	Agents   map[string]*agentFile `yaml:"agents"`   // agents that are its tools or that it can transfer to, by name
	Transfer bool                  `yaml:"transfer"` // the agent is not a tool: the conversation can be transferred to it

	Given   []entryFile `yaml:"given"`   // additional middlewares of the run
	Resumed *agentFile  `yaml:"resumed"` // the agent that resumes a paused run

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
	return agent.Limits{
		ModelCalls:  l.ModelCalls,
		ToolCalls:   l.ToolCalls,
		Tools:       l.Tools,
		OnLimit:     l.OnLimit,
		OnToolLimit: l.OnToolLimit,
	}
}

type entryFile struct {
	Module  string         `yaml:"module"` // NAME.go, or NAME.wasm of testdata/modules
	Name    string         `yaml:"name"`
	Ring    string         `yaml:"ring"`
	OnFault string         `yaml:"on_fault"`
	Read    string         `yaml:"read"`
	Grants  []string       `yaml:"grants"` // for calls of its own: model, tool:NAME
	Config  map[string]any `yaml:"config"`
}

// A Middlewares returns the middlewares of entries. All Go modules of cases are in one WebAssembly
// module; the configuration selects one.
type Middlewares interface {
	// Go returns the suite's module, configured as one of its middlewares, with grants.
	Go(ctx context.Context, entry string, config json.RawMessage, grants []string) (hook.Middleware, error)
	// Wasm returns a module of testdata/modules.
	Wasm(ctx context.Context, entry, file string, config json.RawMessage, grants []string) (hook.Middleware, error)
}

// An Outcome is the outcome of a case.
type Outcome struct {
	Events   []abi.Event
	Client   []json.RawMessage // events encoded for the client
	Requests []request
	State    []abi.Message
	Err      error // the error of building the agent
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
	b := &builder{
		c:           c,
		suite:       s,
		middlewares: ms,
		model:       scripted.New(c.Replies...),
		player:      &player{told: map[string]chan struct{}{}, calls: map[string]int{}},
	}
	look := hook.Entry{Name: "the-case", Ring: hook.Outer, Middleware: lookAtState(&out.State)}
	a, err := b.agent(ctx, "", &file, look)
	later := a
	if err == nil && file.Resumed != nil {
		later, err = b.agent(ctx, "", file.Resumed, look)
	}
	if err != nil {
		out.Err = err
		return out, nil
	}
	for range max(1, file.Runs) {
		if err := b.player.play(ctx, c, a, later, out); err != nil {
			return nil, err
		}
	}
	for _, r := range b.model.Requests() {
		seen := request{messages: r.Messages, model: r.Model, params: r.Params}
		for _, t := range r.Tools {
			seen.tools = append(seen.tools, t.Name)
		}
		out.Requests = append(out.Requests, seen)
	}
	return out, nil
}

// Got formats the actual text for each expectation of the case.
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
	case "client":
		return o.client(s.Arg)
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
			params, _ := abijson.Marshal(r.params)
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

// Same reports whether got matches the expectation.
func (s Section) Same(got string) bool {
	want := strings.TrimSpace(s.Text)
	if s.Kind == "error" {
		return strings.Contains(got, want)
	}
	return want == strings.TrimSpace(got)
}
