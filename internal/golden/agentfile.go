package golden

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// agentFile is a case's agent.yaml. It has a subset of the keys of an agent file of package
// agentfile, and keys that only tests use.
type agentFile struct {
	Instruction    string        `yaml:"instruction"`
	ReturnDirectly []string      `yaml:"return_directly"`
	Stream         *bool         `yaml:"stream"`
	Middlewares    []entryFile   `yaml:"middlewares"`
	Limits         *limitsFile   `yaml:"limits"`
	Timeout        time.Duration `yaml:"timeout"`
	Model          modelFile     `yaml:"model"`
	Runs           int           `yaml:"runs"` // number of runs with the same messages

	Metadata map[string]any `yaml:"metadata"` // the metadata of the runs

	Agents   map[string]*agentFile `yaml:"agents"`   // the agent's sub-agents, by name
	Transfer bool                  `yaml:"transfer"` // whether the agent can take over the conversation; otherwise it is a tool

	Given   []entryFile `yaml:"given"`   // additional middlewares of the agent's runs
	Resumed *agentFile  `yaml:"resumed"` // the agent that resumes a paused run

	KeepOrphanResults  bool `yaml:"keep_orphan_results"`
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
	OnLimit     string         `yaml:"on_limit"`
	OnToolLimit string         `yaml:"on_tool_limit"`

	JournalBytes int64 `yaml:"journal_bytes"`
}

type entryFile struct {
	Module  string         `yaml:"module"` // NAME.go, or NAME.wasm
	Name    string         `yaml:"name"`
	Ring    string         `yaml:"ring"`
	OnFault string         `yaml:"on_fault"`
	Read    string         `yaml:"read"`
	Grants  []string       `yaml:"grants"` // as in an agent file
	When    *wire.When     `yaml:"when"`
	Config  map[string]any `yaml:"config"`
}

func parseAgent(data []byte) (file agentFile, err error) {
	if len(bytes.TrimSpace(data)) > 0 {
		err = yaml.UnmarshalWithOptions(data, &file, yaml.Strict())
	}
	return file, err
}

// agent converts f, which describes an agent of case c.
func (f *agentFile) agent(c *Case) (*wire.Agent, error) {
	a := &wire.Agent{
		Instruction:    f.Instruction,
		ReturnDirectly: f.ReturnDirectly,
		NoStream:       f.Stream != nil && !*f.Stream,
		TimeoutMS:      f.Timeout.Milliseconds(),
		Limits:         (*wire.Limits)(f.Limits),
		Retries:        f.Model.Retries,
		Transfer:       f.Transfer,

		KeepOrphanResults:  f.KeepOrphanResults,
		ContinueOnError:    f.ContinueOnError,
		ContinueOnResponse: f.ContinueOnResponse,
	}
	for _, m := range f.Model.Fallbacks {
		a.Fallbacks = append(a.Fallbacks, m.Name)
	}
	entries := f.Middlewares
	if entries == nil && f.Agents == nil {
		for _, name := range c.ModuleNames() {
			entries = append(entries, entryFile{Module: name + ".go"})
		}
	}
	var err error
	if a.Middlewares, err = c.middlewares(entries); err != nil {
		return nil, err
	}
	if a.Given, err = c.middlewares(f.Given); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Agents)) {
		other, err := f.Agents[name].agent(c)
		if err != nil {
			return nil, err
		}
		if a.Agents == nil {
			a.Agents = map[string]*wire.Agent{}
		}
		a.Agents[name] = other
	}
	return a, nil
}

// middlewares converts the entries of a chain. It returns nil if entries is nil.
func (c *Case) middlewares(entries []entryFile) ([]wire.Middleware, error) {
	if entries == nil {
		return nil, nil
	}
	out := make([]wire.Middleware, 0, len(entries))
	for _, f := range entries {
		m := wire.Middleware{Name: f.Name, Module: f.Module, Ring: f.Ring, OnFault: f.OnFault, Read: f.Read, Grants: f.Grants,
			When: f.When}
		stem, kind, _ := strings.Cut(f.Module, ".")
		if m.Name == "" {
			m.Name = stem
		}
		if kind == "go" {
			m.Hooks = c.Hooks[stem]
		}
		if f.Config != nil {
			var err error
			if m.Config, err = abijson.Marshal(f.Config); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, nil
}
