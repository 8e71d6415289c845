// Package agentfile reads agent.yaml: an agent, its model, tools and
// middlewares, as a typed value. What is wrong with a file is told with its
// place, the source line, and what is allowed there.
package agentfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

//go:generate go run ../../internal/schemagen ../../docs/agent.schema.json

// MaxSize is the size of the largest file that is read, in bytes.
const MaxSize = 256 << 10

// A File is an agent as it is written down. Its zero value is an agent
// without a model.
type File struct {
	Name        string `json:"name,omitempty" jsonschema:"The agent's name, which modules see."`
	Model       Model  `json:"model,omitzero" jsonschema:"The model that is asked. Keys are never in this file: they come from the environment."`
	Instruction string `json:"instruction,omitempty" jsonschema:"What the model is told first, as a system message."`
	Tools       Tools  `json:"tools,omitzero" jsonschema:"What the model may call."`

	Secrets []Secret `json:"secrets,omitempty" jsonschema:"Values that modules put into requests as {{secret:NAME}} and never see. They come from the environment."`

	ReturnDirectly []string `json:"return_directly,omitempty" jsonschema:"Tools whose result ends the run, as its answer."`

	Middlewares []Middleware `json:"middlewares,omitempty" jsonschema:"The modules around the agent's loop, in their order: the first is the outermost."`
	Rings       Rings        `json:"rings,omitzero" jsonschema:"Modules of an operator, around and inside the middlewares."`

	ContinueOnError    bool `json:"continue_on_error,omitempty" jsonschema:"Whether the rest of a pipeline of before and after hooks runs after one that failed. The first error is reported at the end."`
	ContinueOnResponse bool `json:"continue_on_response,omitempty" jsonschema:"Whether the rest of a pipeline of before and after hooks runs after one that answered. The last answer counts."`

	Agents []Agent `json:"agents,omitempty" jsonschema:"Other agents, that this one may run as tools or hand the conversation over to. One without a model has this agent's. The modules of this agent's rings are around theirs as well."`

	Limits Limits `json:"limits,omitzero" jsonschema:"What a run may use."`
	Stream *bool  `json:"stream,omitempty" jsonschema:"Whether the model is asked to stream its answers. Default: true."`

	path  string
	lines []string
	marks map[string]mark

	outer  *File  // in which it stands
	prefix string // where
}

// A Model says which model is asked, where, and what happens if it fails.
type Model struct {
	Endpoint
	Params    abi.Params `json:"params,omitempty" jsonschema:"Parameters of each call by their OpenAI names: temperature, max_tokens, …"`
	Retries   *int       `json:"retries,omitempty" jsonschema:"How often a call that failed is made again, where that makes sense. Default: 2, at most 100."`
	Fallbacks []Endpoint `json:"fallbacks,omitempty" jsonschema:"Models that are asked, in this order, when the one before does not answer."`
}

// An Endpoint is a model at an OpenAI-compatible address.
type Endpoint struct {
	Name      string `json:"name,omitempty" jsonschema:"The model's name at its endpoint."`
	BaseURL   URL    `json:"base_url,omitempty" jsonschema:"The endpoint's address up to, not including, /chat/completions. Default: OPENAI_BASE_URL, else OpenAI's own; a fallback's default is that of the model."`
	APIKeyEnv string `json:"api_key_env,omitempty" jsonschema:"The environment variable that holds the endpoint's key. Default: OPENAI_API_KEY. A fallback with an address of its own gets no key without it."`
}

// Tools are what the model may call.
type Tools struct {
	Builtin *[]Builtin  `json:"builtin,omitempty" jsonschema:"The built-in tools. Default: time and calculator, and with a root the file tools. [] for none."`
	Root    Path        `json:"root,omitempty" jsonschema:"The directory that the file tools may read. They are read-only, and nothing leads out of it."`
	MCP     []MCPServer `json:"mcp,omitempty" jsonschema:"MCP servers, whose tools are added. Names stay as they are; clashes are refused."`

	Idempotent []string `json:"idempotent,omitempty" jsonschema:"Tools that may be called twice with the effect of once, beside those that say so themselves: a run that was cut off during such a call makes it again. Of others the model is told that the outcome is unknown."`
}

// An MCPServer is started as a command, or reached at a URL.
type MCPServer struct {
	Name    string            `json:"name,omitempty" jsonschema:"What messages call it. Default: its command, or the host of its URL."`
	Command Command           `json:"command,omitempty" jsonschema:"The program and its arguments; a text is split like shell words, without a shell."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Environment variables for the command, beside this program's own. Nothing is expanded."`

	URL       URL    `json:"url,omitempty" jsonschema:"The address of a server that speaks streamable HTTP."`
	APIKeyEnv string `json:"api_key_env,omitempty" jsonschema:"The environment variable that holds the key for the url, sent as a bearer token. Default: no key."`

	// Dir is the directory of the file, in which the command runs.
	Dir string `json:"-"`

	Timeout Duration `json:"timeout,omitempty" jsonschema:"How long the server may take to answer when it is connected to, and again to list its tools. Default: 10s, at most 10m."`
}

// A Secret is a value of the environment that the host fills into requests of
// modules.
type Secret struct {
	Name  string   `json:"name" jsonschema:"The name by which requests ask for it: letters, digits, _ and -."`
	Env   string   `json:"env" jsonschema:"The environment variable that holds the value, of 8 bytes and more."`
	Hosts []string `json:"hosts" jsonschema:"The hosts that it is sent to, by https: api.example.com, api.example.com:8443, *.example.com."`
}

// A Middleware is one entry of the chain.
type Middleware struct {
	Module  Path            `json:"module" jsonschema:"The module: a .wasm file, a script (.ts, .js), or an Extism manifest (.json)."`
	Name    string          `json:"name,omitempty" jsonschema:"The entry's name, unique in the agent. Default: the module's file name without its extension."`
	Config  json.RawMessage `json:"config,omitempty" jsonschema:"The module's configuration, of any form that it takes."`
	Limits  ModuleLimits    `json:"limits,omitzero" jsonschema:"What the module may use. Passing a limit is a fault."`
	Grants  []Grant         `json:"grants,omitempty" jsonschema:"The module's powers beyond computing. Default: it reads all messages, and nothing else."`
	OnFault OnFault         `json:"on_fault,omitempty" jsonschema:"What a fault of the module does: fail ends the run (default), skip goes on as if the module were not there. A gate that faults denies either way."`
}

// Rings are modules around (outer) and inside (inner) the middlewares.
type Rings struct {
	Outer []Middleware `json:"outer,omitempty" jsonschema:"Modules around the middlewares."`
	Inner []Middleware `json:"inner,omitempty" jsonschema:"Modules between the middlewares and the model and tools."`
}

// ModuleLimits bound one module; what is zero has its default.
type ModuleLimits struct {
	Timeout      Duration `json:"timeout,omitempty" jsonschema:"The module's own running time in one hook. Default: 1s."`
	Memory       Bytes    `json:"memory,omitempty" jsonschema:"Linear memory of one instance. Default: 64MiB."`
	Fuel         int64    `json:"fuel,omitempty" jsonschema:"The module's work in one hook, about one for each instruction: ends it at the same place on every machine. Default: 10000000000."`
	RunFuel      int64    `json:"run_fuel,omitempty" jsonschema:"The work of all hooks of the entry in a run, or in what is left of it after a pause. Default: 100 times fuel."`
	StackBytes   Bytes    `json:"stack_bytes,omitempty" jsonschema:"The stack of the module's calls of its own functions. Default: 4MiB."`
	ModuleBytes  Bytes    `json:"module_bytes,omitempty" jsonschema:"The largest module. Default: 16MiB."`
	InputBytes   Bytes    `json:"input_bytes,omitempty" jsonschema:"The largest input of a hook. Default: 8MiB."`
	OutputBytes  Bytes    `json:"output_bytes,omitempty" jsonschema:"The largest answer of a hook. Default: 8MiB."`
	ReplyBytes   Bytes    `json:"reply_bytes,omitempty" jsonschema:"The largest reply of one host call. Default: 8MiB."`
	LogBytes     Bytes    `json:"log_bytes,omitempty" jsonschema:"What one hook may print and log. Default: 64KiB."`
	LogLineBytes Bytes    `json:"log_line_bytes,omitempty" jsonschema:"The longest line of it. Default: 4KiB."`
	HostCalls    int      `json:"host_calls,omitempty" jsonschema:"Host calls of one hook. Default: 10000."`
	Instances    int      `json:"instances,omitempty" jsonschema:"Calls of the entry under way at once in a run. Default: 64."`
	Nesting      int      `json:"nesting,omitempty" jsonschema:"How many modules may stand on one another. Default: 64."`
}

// Limits bound a run; what is zero has its default.
type Limits struct {
	MaxSteps    int      `json:"max_steps,omitempty" jsonschema:"Steps of a run, each one call of the model. Default: 20, at most 100000."`
	Timeout     Duration `json:"timeout,omitempty" jsonschema:"The time of a run. Default: none, at most 720h."`
	ToolTimeout Duration `json:"tool_timeout,omitempty" jsonschema:"The time of one tool call. Default: 2m, at most 24h."`
	Pause       Duration `json:"pause,omitempty" jsonschema:"How long a paused run waits for answers. Default: 168h, a week; at most 8784h."`
	Parallel    int      `json:"parallel,omitempty" jsonschema:"Tool calls at once. Default: 8, at most 256."`

	ModelCalls  int            `json:"model_calls,omitempty" jsonschema:"How often the model is asked, also by modules and by agents that are tools. Retries do not count. Default: no limit, at most 1000000."`
	ToolCalls   int            `json:"tool_calls,omitempty" jsonschema:"Tool calls that the model, modules, and agents that are tools may make, all tools together. Default: no limit, at most 1000000."`
	Tools       map[string]int `json:"tools,omitempty" jsonschema:"Calls of single tools, by their names. Default: no limit, at most 1000000."`
	OnLimit     OnLimit        `json:"on_limit,omitempty" jsonschema:"What happens at max_steps and model_calls: error ends the run (default), end ends it with the answer so far, answer makes the last call one without tools so that the model answers."`
	OnToolLimit OnToolLimit    `json:"on_tool_limit,omitempty" jsonschema:"What happens at tool_calls and tools: error ends the run (default), end ends it with the answer so far, answer refuses calls beyond the limit and lets the model answer without tools, refuse only refuses them."`

	JournalBytes int64 `json:"journal_bytes,omitempty" jsonschema:"Bytes that a run and its sub-agents write to the journal. The run ends beyond it. Default: 67108864, which a file cannot raise."`

	Models []string `json:"models,omitzero" jsonschema:"Models that modules may choose beside the agent's own. Default: any at its endpoint; [] for none."`
}

// Load reads a file. Paths in it are relative to the file's directory, and
// come back joined with it. The error is an [*Error] where it has a place in
// the file.
func Load(path string) (*File, error) { return load(path, nil) }

// load loads a file that stands in others.
func load(path string, files []string) (*File, error) {
	b, err := read(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(path, b)
	if err != nil {
		return nil, err
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := f.locate(filepath.Dir(path), append(slices.Clone(files), at)); err != nil {
		return nil, err
	}
	if err := f.CheckBounds(); err != nil {
		return nil, err
	}
	return f, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give -f the path of an agent.yaml", path, cause(err))
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; give -f the path of an agent.yaml", path, cause(err))
	case len(b) > MaxSize:
		return nil, fmt.Errorf("%s: larger than %d bytes, so hardly an agent.yaml", path, MaxSize)
	}
	return b, nil
}

// Parse reads an agent without looking at the files that it names; name is
// what errors call it.
func Parse(name string, b []byte) (*File, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // as some editors begin a file
	f := &File{path: name, lines: strings.Split(string(b), "\n"), marks: map[string]mark{}}
	if err := f.decode(b); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Path is where the file was read from; empty for one that was not.
func (f *File) Path() string { return f.path }

// cause is what went wrong, without the path that the error was about.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
