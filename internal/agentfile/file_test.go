package agentfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

const whole = `# everything there is
name: helper
model:
  name: gpt-5
  base_url: https://api.example.com/v1
  api_key_env: EXAMPLE_KEY
  params: {temperature: 0, stop: ["\n\n"], seed: 99999999999999999999999}
  retries: 0
  fallbacks:
    - name: small
    - {name: local, base_url: "http://127.0.0.1:8080/v1"}
instruction: |
  Be brief.
  Be right.
tools:
  builtin: [calculator, read_file]
  root: files
  mcp:
    - command: npx -y "a server" --flag
      env: {TOKEN_FILE: /run/token}
    - {name: search, command: [./search, "two words"]}
    - url: https://mcp.example.com/mcp
      api_key_env: MCP_KEY
return_directly: [read_file]
middlewares:
  - module: wasm/redact.wasm
    config: &patterns
      patterns: [email, {name: "x", pattern: 'a+'}]
      max: 1.5
  - module: wasm/redact.wasm
    name: again
    config: *patterns
    limits: {timeout: 50ms, memory: 16MiB, host_calls: 100, log_bytes: 4096, fuel: 10000000000}
    grants: [read:last, model, "tool:read_file", http:api.example.com, store]
    on_fault: skip
rings:
  outer:
    - module: wasm/policy.json
  inner:
continue_on_error: true
limits:
  max_steps: 5
  timeout: 1m30s
  tool_timeout: 10s
  parallel: 2
  model_calls: 7
  tool_calls: 9
  tools: {read_file: 3}
  on_limit: end
  on_tool_limit: refuse
  models: []
stream: false
`

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// TestAllFields checks that Load reads each key of an agent file into its field.
func TestAllFields(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"agent.yaml": whole, "wasm/redact.wasm": "", "wasm/policy.json": "", "files/a": ""})
	f, err := agentfile.Load(filepath.Join(dir, "agent.yaml"))
	require.NoError(t, err)

	require.Equal(t, "helper", f.Name)
	require.Equal(t, "gpt-5", f.Model.Name)
	require.EqualValues(t, "https://api.example.com/v1", f.Model.BaseURL)
	require.Equal(t, "EXAMPLE_KEY", f.Model.APIKeyEnv)
	require.JSONEq(t, "0", string(f.Model.Params["temperature"]))
	require.Equal(t, `["\n\n"]`, string(f.Model.Params["stop"]))
	require.Equal(t, "99999999999999999999999", string(f.Model.Params["seed"]), "numbers stay as they are")
	require.Zero(t, *f.Model.Retries)
	require.Len(t, f.Model.Fallbacks, 2)
	require.EqualValues(t, "http://127.0.0.1:8080/v1", f.Model.Fallbacks[1].BaseURL)
	require.Equal(t, "Be brief.\nBe right.\n", f.Instruction)
	require.Equal(t, []agentfile.Builtin{"calculator", "read_file"}, *f.Tools.Builtin)
	require.EqualValues(t, filepath.Join(dir, "files"), f.Tools.Root, "paths are the file's")
	mcp := f.Tools.MCP
	require.Equal(t, agentfile.Command{"npx", "-y", "a server", "--flag"}, mcp[0].Command)
	require.Equal(t, "npx", mcp[0].Name)
	require.Equal(t, dir, mcp[0].Dir)
	require.Equal(t, agentfile.Command{"./search", "two words"}, mcp[1].Command)
	require.Equal(t, "mcp.example.com", mcp[2].Name)
	require.Equal(t, "MCP_KEY", mcp[2].APIKeyEnv)
	require.Equal(t, []string{"read_file"}, f.ReturnDirectly)

	first, second := f.Middlewares[0], f.Middlewares[1]
	require.Equal(t, "redact", first.Name, "the stem of the file")
	require.EqualValues(t, filepath.Join(dir, "wasm/redact.wasm"), first.Module)
	require.Equal(t, `{"patterns":["email",{"name":"x","pattern":"a+"}],"max":1.5}`, string(first.Config))
	require.Equal(t, string(first.Config), string(second.Config), "an alias is what it stands for")
	require.EqualValues(t, 50*time.Millisecond, second.Limits.Timeout)
	require.EqualValues(t, 16<<20, second.Limits.Memory)
	require.EqualValues(t, 4096, second.Limits.LogBytes)
	require.EqualValues(t, 10_000_000_000, second.Limits.Fuel)
	require.EqualValues(t, "skip", second.OnFault)
	grants, err := second.ModuleGrants()
	require.NoError(t, err)
	require.Equal(
		t,
		[]string{"http:api.example.com", "model", "read:last", "store", "tool:read_file"},
		policy.GrantStrings(grants),
	)
	require.Equal(t, "policy", f.Rings.Outer[0].Name)
	require.Empty(t, f.Rings.Inner)

	require.True(t, f.ContinueOnError)
	require.Equal(t, agentfile.Limits{MaxSteps: 5, Timeout: agentfile.Duration(90 * time.Second),
		ToolTimeout: agentfile.Duration(
			10 * time.Second,
		), Parallel: 2, ModelCalls: 7, ToolCalls: 9, Tools: map[string]int{"read_file": 3},
		OnLimit: "end", OnToolLimit: "refuse", Models: []string{}}, f.Limits)
	require.False(t, *f.Stream)
}

func TestEmptyFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# a comment\n", "---\n", "tools:\nmiddlewares:\nlimits:\n"} {
		f, err := agentfile.Parse("agent.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Nil(t, f.Tools.Builtin)
		require.Empty(t, f.Middlewares)
	}
}

// TestOtherEditors checks that files with a byte order mark and CRLF line ends are accepted.
// Positions in errors must not count the mark.
func TestOtherEditors(t *testing.T) {
	t.Parallel()
	f, err := agentfile.Parse(
		"agent.yaml",
		[]byte("\ufeffname: clerk\r\nmodel: {name: m}\r\ninstruction: |\r\n  one\r\n  two\r\n"),
	)
	require.NoError(t, err)
	require.Equal(t, "clerk", f.Name)
	require.Equal(t, "one\ntwo\n", f.Instruction)
	_, err = agentfile.Parse("agent.yaml", []byte("\ufeffmodell: x\r\n"))
	require.ErrorContains(t, err, "agent.yaml:1:1: unknown key \"modell\"")
}

// TestErrors checks that Parse rejects invalid files, and that the errors say what is wrong and
// where.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"middlewares:\n  - modul: a.wasm\n", `agent.yaml:2:5: unknown key "modul" in middlewares[0]; did you mean "module"? (allowed: module, name, config, limits, grants, on_fault, when)
  2 |   - modul: a.wasm
    |     ^`},
		"unknown key at the top": {"model: {}\ntool: {}\n", `agent.yaml:2:1: unknown key "tool"; did you mean "tools"? (allowed: name, model, instruction, tools, secrets, return_directly, middlewares, rings, continue_on_error, continue_on_response, agents, limits, requests, stream, keep_orphan_results)
  2 | tool: {}
    | ^`},
		"key of another name": {"middlewares: [{module: a.wasm, limits: {memory_bytes: 5}}]", `did you mean "memory"?`},
		"wrong type": {"limits:\n  max_steps: many\n", `agent.yaml:2:14: max_steps: want a whole number, not text
  2 |   max_steps: many
    |              ^`},
		"number for text":        {"model: {name: 5}\n", `agent.yaml:1:15: name: want text, in quotes if need be, not the number 5`},
		"text for a list":        {"middlewares: a.wasm\n", `agent.yaml:1:14: middlewares: want a list, not text`},
		"provider":               {"model: {name: m, provider: mesages}\n", `did you mean "messages"?`},
		"list for keys":          {"model:\n  - name: x\n", `agent.yaml:2:3: model: want keys and values: name, provider, base_url, api_key_env, params, retries, fallbacks, not a list`},
		"text for keys":          {"model: gpt-5\n", `agent.yaml:1:8: model: want keys and values: name, provider`},
		"no value":               {"instruction:\n", `instruction has no value; set one, or remove the key`},
		"not an agent":           {"- a\n", `agent.yaml:1:1: an agent: want keys and values`},
		"key twice":              {"name: a\nname: b\n", `agent.yaml:2:1: not valid YAML: mapping key "name" already defined at [1:1]`},
		"not closed":             {"name: [1,\n", `agent.yaml:1:7: not valid YAML: sequence end token ']' not found`},
		"tab":                    {"\tname: a\n", `not valid YAML: tab character cannot use as a map key directly`},
		"two documents":          {"name: a\n---\nname: b\n", `more than one YAML document; want one`},
		"not text":               {"name: \xff\n", `agent.yaml: not text in UTF-8`},
		"number as key":          {"4: b\n", `a key must be text, in quotes if need be`},
		"tag":                    {"name: !!str 5\n", `tag !!str is not supported; remove it`},
		"no such anchor":         {"name: *x\n", `unknown anchor &x`},
		"anchor in itself":       {"middlewares: [{module: m.wasm, config: &x [*x]}]\n", `nested deeper than 64`},
		"NaN":                    {"middlewares: [{module: m.wasm, config: {x: .nan}}]\n", `this number cannot be written in JSON`},
		"list for a time":        {"limits: {timeout: [1]}\n", `timeout: want a single value, not a list`},
		"no fuel":                {"middlewares: [{module: a.wasm, limits: {fuel: -1}}]", `fuel: want a number above 0`},
		"too large a number":     {"limits: {max_steps: 18446744073709551615}", `want a whole number`},
		"no unit":                {"limits: {timeout: 30}\n", `agent.yaml:1:19: timeout: want a duration with its unit, such as 500ms, 30s or 2m, not "30"`},
		"negative time":          {"limits: {timeout: -3s}\n", `want a duration`},
		"no calls of a tool":     {"limits: {tools: {t: 0}}\n", `agent.yaml:1:18: t: want a number above 0`},
		"refused model calls":    {"limits: {on_limit: refuse}\n", `unknown on_limit "refuse"; allowed: error, end, answer`},
		"no steps":               {"limits: {max_steps: 0}\n", `agent.yaml:1:10: max_steps: want a number above 0`},
		"size":                   {"middlewares: [{module: a.wasm, limits: {memory: 64MB}}]", `memory: want a size such as 512KiB, 64MiB, or a number of bytes, not "64MB"`},
		"size that overflows":    {"middlewares: [{module: a.wasm, limits: {memory: 9999999999GiB}}]", `want a size`},
		"module left out":        {"middlewares:\n  - name: x\n", `agent.yaml:2:5: a middleware needs a module: the path of a .wasm file`},
		"module empty":           {"middlewares: [{module: ''}]\n", `module: want a path`},
		"two of a name":          {"middlewares:\n  - module: a/x.wasm\n  - module: b/x.wasm\n", `agent.yaml:3:5: middlewares[0] has the same name "x"; rename one of them`},
		"two of a name, rings":   {"rings: {outer: [{module: x.wasm}]}\nmiddlewares:\n  - module: x.json\n", `rings.outer[0] has the same name "x"`},
		"on_fault":               {"middlewares: [{module: x.wasm, on_fault: ignore}]\n", `on_fault: unknown on_fault "ignore"; allowed: fail, skip`},
		"when":                   {"middlewares:\n  - module: x.wasm\n    when: {agents: [a]}\n", `agent.yaml:3:12: unknown key "agents" in middlewares[0].when; did you mean "agent"? (allowed: agent, metadata, model, tool)`},
		"when of one name":       {"middlewares: [{module: x.wasm, when: {tool: shell}}]\n", `tool: want a list, not text`},
		"when of nothing":        {"middlewares:\n  - module: x.wasm\n    when: {metadata: {tier: []}}\n", `agent.yaml:3:5: when: metadata.tier is empty and would match nothing`},
		"grant":                  {"middlewares:\n  - module: x.wasm\n    grants: [read:last, files]\n", `agent.yaml:3:25: grants[1]: grant "files": unknown grant; want one of read:all`},
		"grant of no host":       {"middlewares: [{module: x.wasm, grants: [\"http:0x7f.1\"]}]\n", `want http:HOST: the host looks like an address`},
		"secret without a name":  {"secrets: [{env: KEY, hosts: [a.org]}]\n", `a secret needs a name of letters`},
		"secret without env":     {"secrets: [{name: K, hosts: [a.org]}]\n", `secret K needs env: the environment variable with its value`},
		"secret without hosts":   {"secrets: [{name: K, env: KEY}]\n", `secret K needs hosts`},
		"secret for no host":     {"secrets: [{name: K, env: KEY, hosts: [\"https://a.org\"]}]\n", `host "https://a.org": `},
		"secrets of one name":    {"secrets: [{name: K, env: KEY, hosts: [a.org]}, {name: K, env: KEY, hosts: [a.org]}]\n", `two secrets are named K`},
		"secret with a value":    {"secrets: [{name: K, value: x, hosts: [a.org]}]\n", `unknown key "value" in secrets[0]`},
		"grants that contradict": {"middlewares: [{module: x.wasm, grants: [read:last, read:all]}]\n", `contradicts read:last`},
		"tool":                   {"tools: {builtin: [calculatr]}\n", `unknown built-in tool "calculatr"; did you mean "calculator"? (allowed: time`},
		"tool twice":             {"tools: {builtin: [time, time]}\n", `built-in tool "time"`},
		"file tool, no root":     {"tools: {builtin: [read_file]}\n", `read_file needs tools.root: the directory it can read`},
		"mcp of nothing":         {"tools: {mcp: [{name: x}]}\n", `an MCP server needs a command or a url`},
		"mcp of both":            {"tools: {mcp: [{command: x, url: 'http://x'}]}\n", `an MCP server has a command or a url, not both`},
		"mcp env of a url":       {"tools: {mcp: [{url: 'http://x', env: {A: b}}]}\n", `env needs a command`},
		"mcp key of a command":   {"tools: {mcp: [{command: x, api_key_env: A}]}\n", `api_key_env needs a url`},
		"mcp command not closed": {"tools: {mcp: [{command: 'x \"y'}]}\n", `command: split the command`},
		"mcp command empty":      {"tools: {mcp: [{command: []}]}\n", `command: want a program and its arguments`},
		"mcp names":              {"tools: {mcp: [{command: x}, {command: a/x}]}\n", `two MCP servers are named "x"`},
		"address":                {"model: {base_url: localhost:8080}\n", `base_url: want a URL that starts with https:// or http://`},
		"retries":                {"model: {retries: -1}\n", `retries: want 0 or more`},
		"parameter":              {"model: {params: {messages: []}}\n", `params: messages is set by the host`},
		"parameter, written big": {"model: {params: {Messages: []}}\n", `params: Messages is set by the host`},
		"fallback":               {"model:\n  fallbacks:\n    - base_url: http://x\n", `agent.yaml:3:7: a fallback needs the name of its model: name`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := agentfile.Parse("agent.yaml", []byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestMissingFiles(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"agent.yaml": "middlewares:\n  - module: wasm/redcat.wasm\n",
		"root.yaml":  "tools: {root: nowhere}\n",
		"file.yaml":  "tools: {root: root.yaml}\n",
	})
	for file, want := range map[string]string{
		"agent.yaml": "agent.yaml:2:5: module: " + dir + "/wasm/redcat.wasm: no such file or directory; paths are relative to this file\n  2 |   - module: wasm/redcat.wasm\n    |     ^",
		"root.yaml":  "root: " + dir + "/nowhere: no such file or directory",
		"file.yaml":  "root.yaml: not a directory",
		"no.yaml":    "no.yaml: no such file or directory; want the path of an agent.yaml",
		".":          "is a directory; want the path of an agent.yaml",
	} {
		_, err := agentfile.Load(filepath.Join(dir, file))
		require.ErrorContains(t, err, want)
	}
	_, err := agentfile.Load(filepath.Join(dir, "agent.yaml"))
	var at *agentfile.Error
	require.True(t, errors.As(err, &at))
	require.Equal(t, 2, at.Line)
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"agent.yaml": string(make([]byte, agentfile.MaxSize+1))})
	_, err := agentfile.Load(filepath.Join(dir, "agent.yaml"))
	require.ErrorContains(t, err, "larger than")
	for _, text := range []string{
		strings.Repeat("[", 1000), "a: " + strings.Repeat("{a: ", 1000), strings.Repeat("- ", 1000),
	} {
		_, err := agentfile.Parse("agent.yaml", []byte(text))
		require.ErrorContains(t, err, "nested too deep")
	}
	_, err = agentfile.Parse("agent.yaml", []byte(strings.Repeat(" ", agentfile.MaxSize+1)))
	require.ErrorContains(t, err, "larger than")
}

func TestPositionsOfKeys(t *testing.T) {
	t.Parallel()
	f, err := agentfile.Parse("agent.yaml", []byte("middlewares:\n  - module: a.wasm\n    config: {x: 1}\n"))
	require.NoError(t, err)
	why := errors.New("x: want text")
	require.ErrorContains(t, agentfile.ErrorAt(f, "middlewares[0].config", why), "agent.yaml:3:5: x: want text")
	require.ErrorContains(
		t,
		agentfile.ErrorAt(f, "middlewares[0].limits.timeout", why),
		"agent.yaml:2:5:",
		"the nearest key around it",
	)
	require.Equal(t, why, agentfile.ErrorAt(f, "tools.root", why), "what is not in the file has no place")
	require.ErrorIs(t, agentfile.ErrorAt(f, "middlewares[0].config", why), why)
}

func TestSchemaIsFresh(t *testing.T) {
	t.Parallel()
	texts, err := agentfile.SchemaTexts()
	require.NoError(t, err)
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run go generate ./internal/agentfile")
	}
}

// TestSchemaOfGrants checks that the schema accepts each form of grant that the error of an unknown
// grant lists.
func TestSchemaOfGrants(t *testing.T) {
	t.Parallel()
	_, err := policy.ParseGrants([]string{"unknown"})
	require.ErrorContains(t, err, "want one of ")
	_, list, _ := strings.Cut(err.Error(), "want one of ")
	s, err := agentfile.Schema()
	require.NoError(t, err)
	pattern := s.Properties["middlewares"].Items.Properties["grants"].Items.Pattern
	for form := range strings.SplitSeq(list, ", ") {
		_, err := policy.ParseGrants([]string{form})
		require.NoError(t, err)
		require.Regexp(t, pattern, form)
	}
}

// TestSchema checks that the schema accepts valid files and rejects invalid ones.
func TestSchema(t *testing.T) {
	t.Parallel()
	s, err := agentfile.Schema()
	require.NoError(t, err)
	r, err := s.Resolve(nil)
	require.NoError(t, err)
	valid := func(text []byte) error {
		var v any
		b, err := yaml.YAMLToJSON(text)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &v))
		if v == nil {
			v = map[string]any{}
		}
		return r.Validate(v)
	}
	require.NoError(t, valid([]byte(whole)))
	require.NoError(
		t,
		valid(
			[]byte(
				"agents: [{name: a, as: transfer, agent: {instruction: Be brief., agents: [{name: b, agent: }]}}, {name: c, file: c.yaml}]",
			),
		),
	)
	examples, err := filepath.Glob("../../examples/*/agent.yaml")
	require.NoError(t, err)
	for _, path := range examples {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, valid(b), path)
		_, err = agentfile.Parse(path, b)
		require.NoError(t, err)
	}
	for _, text := range []string{
		"tool: {}", "middlewares: [{name: x}]", "middlewares: [{module: x, on_fault: ignore}]", "limits: {timeout: 30}",
		"limits: {max_steps: many}", "tools: {builtin: [calc]}", "model: {base_url: here}", "middlewares: [{module: x, grants: [files]}]",
		"middlewares: [{module: x, limits: {memory: 64MB}}]", "agents: [{name: a, agent: {tool: {}}}]", "agents: [{name: a, as: helper, agent: {}}]",
	} {
		require.Error(t, valid([]byte(text)), text)
		_, err := agentfile.Parse("agent.yaml", []byte(text))
		require.Error(t, err, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("a: &x [*x, *x]\nb: *x\n")
	f.Add("middlewares:\n- module: \"\\x41\"\n  config: {? [a]: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := agentfile.Parse("agent.yaml", []byte(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for _, m := range file.Middlewares {
			require.NotEmpty(t, m.Module)
			require.True(t, m.Config == nil || json.Valid(m.Config), string(m.Config))
		}
	})
}
