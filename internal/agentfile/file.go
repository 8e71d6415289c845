// Package agentfile parses agent.yaml files, which describe an agent with its model, tools and
// middlewares, and gateway.yaml files. An error about a value contains its position, the source
// line and the allowed values.
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
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

//go:generate go run ../../internal/schemagen ../../docs

// MaxSize is the maximum size of a file, in bytes.
const MaxSize = 256 << 10

// Environment variables of the default model endpoint of the providers openai and responses.
const (
	EnvAPIKey  = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
)

// Environment variables of the default model endpoint of the provider messages.
const (
	EnvAnthropicAPIKey  = "ANTHROPIC_API_KEY"
	EnvAnthropicBaseURL = "ANTHROPIC_BASE_URL"
)

// ModelEnv lists the environment variables of all default model endpoints.
var ModelEnv = []string{EnvAPIKey, EnvBaseURL, EnvAnthropicAPIKey, EnvAnthropicBaseURL}

// A File is a parsed agent file. The zero value is an agent without a model.
type File struct {
	Name        string `json:"name,omitempty" jsonschema:"The agent's name. Modules can read it."`
	Model       Model  `json:"model,omitzero" jsonschema:"The model. API keys are never in this file: they come from the environment."`
	Instruction string `json:"instruction,omitempty" jsonschema:"The system message at the start of each model request."`
	Tools       Tools  `json:"tools,omitzero" jsonschema:"The tools that the model can call."`

	Secrets []secret `json:"secrets,omitempty" jsonschema:"Secrets that modules send in requests as {{secret:NAME}} without seeing the values, which come from the environment."`

	ReturnDirectly []string `json:"return_directly,omitempty" jsonschema:"Tools whose result ends the run and is its answer."`

	Middlewares []Middleware `json:"middlewares,omitempty" jsonschema:"The modules around the agent's loop, outermost first."`
	Rings       Rings        `json:"rings,omitzero" jsonschema:"The operator's modules, around and inside the middlewares."`

	ContinueOnError    bool `json:"continue_on_error,omitempty" jsonschema:"Whether the remaining before and after hooks of a pipeline run after one of them fails. The first error is reported at the end."`
	ContinueOnResponse bool `json:"continue_on_response,omitempty" jsonschema:"Whether the remaining before and after hooks of a pipeline run after one of them answers. The last answer counts."`

	Agents []Agent `json:"agents,omitempty" jsonschema:"Sub-agents, which this agent can run as tools or transfer the conversation to. The default model of a sub-agent is this agent's. The modules of this agent's rings also apply to sub-agents."`

	Limits   Limits   `json:"limits,omitzero" jsonschema:"The limits of a run."`
	Requests Requests `json:"requests,omitzero" jsonschema:"What requests of OpenAI's and Anthropic's APIs to this agent on a server may set. In the operator's agent rings: what those to all agents may set."`

	Stream *bool `json:"stream,omitempty" jsonschema:"Whether to stream the model's answers. Default: true."`

	KeepOrphanResults bool `json:"keep_orphan_results,omitempty" jsonschema:"Whether to keep tool results without a call, which model APIs reject, as messages of the user. The model may then trust the text of tools like the user's. Default: false, they are removed."`

	path  string
	lines []string
	marks map[string]mark

	outer  *File  // the file that contains this one inline, or nil
	prefix string // the path of this agent in outer
}

// A Model describes the agent's model, its endpoint, retries and fallbacks.
type Model struct {
	Endpoint
	Params    abi.Params `json:"params,omitempty" jsonschema:"Parameters of each call by their OpenAI names: temperature, max_tokens, …"`
	Retries   *int       `json:"retries,omitempty" jsonschema:"The maximum number of retries of a model call that failed with a retryable error. Default: 2, at most 100."`
	Fallbacks []Endpoint `json:"fallbacks,omitempty" jsonschema:"Models to try, in this order, when the previous one does not answer."`
}

// An Endpoint is a model at an endpoint, or the offline model.
type Endpoint struct {
	Name      string   `json:"name,omitempty" jsonschema:"The model's name at its endpoint. echo, without a base_url, is the built-in offline model."`
	Provider  Provider `json:"provider,omitempty" jsonschema:"The API of the endpoint: openai (chat completions), responses (OpenAI's Responses API) or messages (Anthropic's Messages API). Default: openai; for a fallback, that of the model."`
	BaseURL   URL      `json:"base_url,omitempty" jsonschema:"The endpoint's URL, without /chat/completions, /responses or /v1/messages. Default: OPENAI_BASE_URL, else OpenAI's API, and for messages ANTHROPIC_BASE_URL, else Anthropic's; for a fallback whose provider has the same environment variables, the model's endpoint."`
	APIKeyEnv string   `json:"api_key_env,omitempty" jsonschema:"The environment variable with the endpoint's API key. Default: OPENAI_API_KEY, for messages ANTHROPIC_API_KEY; for a fallback with its own base_url, no key."`
}

// Echo is the name of the built-in offline model, which package echo implements.
const Echo = "echo"

// IsEcho reports whether e is the built-in offline model. If e has a URL or a provider, it is a
// model at an endpoint, whatever its name.
func (e *Endpoint) IsEcho() bool { return e.Name == Echo && e.BaseURL == "" && e.Provider == "" }

// A Provider is the API of an endpoint.
type Provider string

// The providers. The zero value means ProviderOpenAI.
const (
	ProviderOpenAI    Provider = "openai"
	ProviderResponses Provider = "responses"
	ProviderMessages  Provider = "messages"
)

var providers = []string{string(ProviderOpenAI), string(ProviderResponses), string(ProviderMessages)}

// UnmarshalText reads the name of a provider.
func (p *Provider) UnmarshalText(b []byte) error {
	return oneOf((*string)(p), string(b), "provider", providers)
}

// Env returns the environment variables with the API key and the base URL of the provider's default
// endpoint.
func (p Provider) Env() (key, baseURL string) {
	if p == ProviderMessages {
		return EnvAnthropicAPIKey, EnvAnthropicBaseURL
	}
	return EnvAPIKey, EnvBaseURL
}

// Tools describes the tools that the model can call.
type Tools struct {
	Builtin *[]Builtin  `json:"builtin,omitempty" jsonschema:"The built-in tools. Default: time and calculator, and with a root also the file tools. [] for none."`
	Root    Path        `json:"root,omitempty" jsonschema:"The directory that the file tools can read. They cannot write, and cannot leave the directory."`
	MCP     []MCPServer `json:"mcp,omitempty" jsonschema:"MCP servers, whose tools are added under their own names. Duplicate names are an error."`

	Idempotent []string `json:"idempotent,omitempty" jsonschema:"Idempotent tools, in addition to those that declare it themselves. If a run is interrupted during a call of an idempotent tool, it repeats the call when it resumes. For other tools, the model receives a result that says the outcome is unknown."`
}

// An MCPServer is an MCP server, started as a command or reached at a URL.
type MCPServer struct {
	Name    string            `json:"name,omitempty" jsonschema:"The server's name in messages. Default: its command, or the host of its URL."`
	Command Command           `json:"command,omitempty" jsonschema:"The program and its arguments. A string is split into shell words; no shell runs."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Additional environment variables of the command. Values are not expanded."`

	URL       URL    `json:"url,omitempty" jsonschema:"The URL of a server with the streamable HTTP transport."`
	APIKeyEnv string `json:"api_key_env,omitempty" jsonschema:"The environment variable with the key for the url, which is sent as a bearer token. Default: no key."`

	// Dir is the working directory of the command. Load sets it to the directory of the file.
	Dir string `json:"-"`

	Timeout Duration `json:"timeout,omitempty" jsonschema:"The timeout for connecting to the server, and again for listing its tools. Default: 10s, at most 10m."`
}

// A secret names an environment variable. The host inserts the variable's value into HTTP requests
// of modules.
type secret struct {
	Name  string   `json:"name" jsonschema:"The secret's name in requests: letters, digits, _ and -."`
	Env   string   `json:"env" jsonschema:"The environment variable with the value, which must have at least 8 bytes."`
	Hosts []string `json:"hosts" jsonschema:"The hosts to which the secret may be sent, over https: api.example.com, api.example.com:8443, *.example.com."`
}

// A Middleware is one entry of the middleware chain.
type Middleware struct {
	Module  Path            `json:"module" jsonschema:"The module: a .wasm file, a script (.ts, .js), a folder of sources, which agent-runner builds, or an Extism manifest (.json)."`
	Name    string          `json:"name,omitempty" jsonschema:"The entry's name, unique in the agent. Default: the module's file name without its extension."`
	Config  json.RawMessage `json:"config,omitempty" jsonschema:"The module's configuration. The module defines its form."`
	Limits  ModuleLimits    `json:"limits,omitzero" jsonschema:"The module's limits. Exceeding one is a fault."`
	Grants  []Grant         `json:"grants,omitempty" jsonschema:"The capabilities granted to the module. Default: it can read all messages, and nothing else."`
	OnFault onFault         `json:"on_fault,omitempty" jsonschema:"The consequence of a fault of the module: fail ends the run (default), skip continues without the module. A gate that faults always denies the call."`
	When    When            `json:"when,omitzero" jsonschema:"The runs and calls in which the module is called. All conditions must hold. Default: all."`
}

// A When restricts a module to the runs and calls that meet all of its conditions. A trailing * in
// a name matches any suffix.
type When struct {
	Agent    []string            `json:"agent,omitempty" jsonschema:"Names of agents."`
	Metadata map[string][]string `json:"metadata,omitempty" jsonschema:"Values of the run's metadata, by key. The client sets metadata, so a module that guards must not depend on it."`
	Model    []string            `json:"model,omitempty" jsonschema:"Names of models. It restricts hooks of model calls only, by the request's model."`
	Tool     []string            `json:"tool,omitempty" jsonschema:"Names of tools. It restricts hooks of tool calls only."`
}

// Rings has the operator's modules around (Outer) and inside (Inner) the middlewares.
type Rings struct {
	Outer []Middleware `json:"outer,omitempty" jsonschema:"Modules around the middlewares."`
	Inner []Middleware `json:"inner,omitempty" jsonschema:"Modules between the middlewares and the model and tools."`
}

// ModuleLimits are the limits of one module. Zero values select the defaults.
type ModuleLimits struct {
	Timeout      Duration `json:"timeout,omitempty" jsonschema:"The module's running time per hook call, without host calls. Default: 1s."`
	Memory       Bytes    `json:"memory,omitempty" jsonschema:"Linear memory of one instance. Default: 64MiB."`
	Fuel         int64    `json:"fuel,omitempty" jsonschema:"The fuel per hook call. An instruction uses about 1 fuel, so the limit has the same effect on every machine. Default: 10000000000."`
	RunFuel      int64    `json:"run_fuel,omitempty" jsonschema:"The fuel of all hook calls of the entry in a run, counted anew after a pause. Default: 100 times fuel."`
	StackBytes   Bytes    `json:"stack_bytes,omitempty" jsonschema:"The module's call stack. Default: 4MiB."`
	ModuleBytes  Bytes    `json:"module_bytes,omitempty" jsonschema:"The size of the module. Default: 16MiB."`
	InputBytes   Bytes    `json:"input_bytes,omitempty" jsonschema:"The input of one hook call. Default: 8MiB."`
	OutputBytes  Bytes    `json:"output_bytes,omitempty" jsonschema:"The answer of one hook call. Default: 8MiB."`
	ReplyBytes   Bytes    `json:"reply_bytes,omitempty" jsonschema:"The reply of one host call. Default: 8MiB."`
	LogBytes     Bytes    `json:"log_bytes,omitempty" jsonschema:"The output and logs of one hook call. Default: 64KiB."`
	LogLineBytes Bytes    `json:"log_line_bytes,omitempty" jsonschema:"One line of output or logs. Default: 4KiB."`
	HostCalls    int      `json:"host_calls,omitempty" jsonschema:"The number of host calls per hook call. Default: 10000."`
	Instances    int      `json:"instances,omitempty" jsonschema:"The number of concurrent calls of the entry in a run. Default: 64."`
	Nesting      int      `json:"nesting,omitempty" jsonschema:"The depth of nested calls between modules. Default: 64."`
}

// Policy converts the limits to those of the module loader.
func (l *ModuleLimits) Policy() policy.Limits {
	return policy.Limits{
		Limits: sandbox.Limits{
			ModuleBytes: int64(l.ModuleBytes), MemoryBytes: int64(l.Memory), HookTime: time.Duration(l.Timeout),
			Fuel: l.Fuel, StackBytes: int64(l.StackBytes),
			Nesting: l.Nesting, LogBytes: int(l.LogBytes), LogLineBytes: int(l.LogLineBytes),
		},
		InputBytes: int(l.InputBytes), OutputBytes: int(l.OutputBytes), ReplyBytes: int(l.ReplyBytes),
		HostCalls: l.HostCalls, RunFuel: l.RunFuel, Instances: l.Instances,
	}
}

// Limits are the limits of a run. Zero values select the defaults.
type Limits struct {
	MaxSteps    int      `json:"max_steps,omitempty" jsonschema:"The number of steps of a run. Each step is one model call. Default: 20, at most 100000."`
	Timeout     Duration `json:"timeout,omitempty" jsonschema:"The duration of a run. Default: no limit, at most 720h."`
	ToolTimeout Duration `json:"tool_timeout,omitempty" jsonschema:"The duration of one tool call. Default: 2m, at most 24h."`
	Pause       Duration `json:"pause,omitempty" jsonschema:"How long a paused run waits for answers. Default: 168h (a week), at most 8784h."`
	Parallel    int      `json:"parallel,omitempty" jsonschema:"The number of concurrent tool calls. Default: 8, at most 256."`

	ModelCalls  int            `json:"model_calls,omitempty" jsonschema:"The number of model calls, including those of modules and of sub-agents that are tools. Retries do not count. Default: no limit, at most 1000000."`
	ToolCalls   int            `json:"tool_calls,omitempty" jsonschema:"The number of tool calls of all tools, including those of modules and of sub-agents that are tools. Default: no limit, at most 1000000."`
	Tools       map[string]int `json:"tools,omitempty" jsonschema:"The number of calls of individual tools, by tool name. Default: no limit, at most 1000000."`
	OnLimit     onLimit        `json:"on_limit,omitempty" jsonschema:"The behavior at max_steps and model_calls: error fails the run (default), end ends it with the answer so far, answer makes the last model call without tools, so that the model answers."`
	OnToolLimit onToolLimit    `json:"on_tool_limit,omitempty" jsonschema:"The behavior at tool_calls and tools: error fails the run (default), end ends it with the answer so far, answer rejects calls beyond the limit and lets the model answer without tools, refuse only rejects the calls."`

	JournalBytes int64 `json:"journal_bytes,omitempty" jsonschema:"The bytes that a run and its sub-agents can write to the journal. Beyond the limit, the run ends. Default: 67108864, which a file cannot raise."`

	Models []string `json:"models,omitzero" jsonschema:"Models that modules can choose in addition to the agent's own. Default: any at its endpoint; [] for none."`
}

// Requests describes which parameters clients of the server's model APIs may set.
type Requests struct {
	Params []string `json:"params,omitzero" jsonschema:"Parameters by their names in chat completions; a trailing * matches anything. Default: frequency_penalty, min_p, parallel_tool_calls, presence_penalty, response_format, seed, stop, temperature, tool_choice, top_k and top_p, which cost no more. [] for none. max_tokens is always allowed, because it only lowers the agent's limit."`
}

// Load reads an agent file and the files of its sub-agents. It joins relative paths with the
// directory of the file that contains them. It returns an error if a file is invalid, if a path
// does not exist, or if a number exceeds its maximum. If an error has a position in a file, it is
// an [*Error].
func Load(path string) (*File, error) { return load(path, nil) }

// load reads an agent file like Load. files lists the absolute paths of the enclosing files, which
// the file must not contain again.
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
	if err := CheckBounds(f); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads an agent file of at most MaxSize bytes.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want the path of an agent.yaml", path, cause(err))
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; want the path of an agent.yaml", path, cause(err))
	case len(b) > MaxSize:
		return nil, fmt.Errorf("%s: larger than %d bytes, the limit for an agent.yaml", path, MaxSize)
	}
	return b, nil
}

// Parse parses and validates an agent file. It does not read other files, and does not call
// [CheckBounds]. name is the file's name in errors.
func Parse(name string, b []byte) (*File, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // some editors write a byte order mark
	f := &File{path: name, lines: strings.Split(string(b), "\n"), marks: map[string]mark{}}
	if err := f.decode(b); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// PathOf returns the path of f: the argument of Load, or the name that Parse received. It returns
// "" for a File that was not parsed.
func PathOf(f *File) string { return f.path }

// cause returns the cause of a file error, without the operation and the path.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
