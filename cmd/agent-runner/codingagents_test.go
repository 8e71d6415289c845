package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/gateway/gatewaytest"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// A codingAgent is a program whose model is behind the gateway. The model calls two of its tools at once:
// one writes allowed.txt, the other makes denied.txt.
type codingAgent struct {
	name     string
	program  string
	optional bool // the test skips the program if it is not installed
	protocol string
	// args returns the arguments for the program. at is the address of the gateway, or "" behind wrap,
	// which sets the address.
	args           func(at, prompt string) []string
	env            []string
	files          map[string]string // settings, by their path below the working directory
	allowed, made  gatewaytest.Call
	rule           string            // tool-policy's rule that denies the second call
	keepsReasoning bool              // the program sends reasoning back
	credentials    map[string]string // headers that the upstream gets
}

// forbidden is the file that the denied call makes.
const forbidden = "denied.txt"

// prompt is the user's prompt. letter is the text that the model writes into allowed.txt, with
// PLACEHOLDER for the placeholder of the address.
const (
	prompt = "Write a note for ann@example.com, and make a file."
	letter = "A note for PLACEHOLDER"
)

var placeholder = regexp.MustCompile(`Write a note for (\[EMAIL_\d+\]),`)

func claude() codingAgent {
	return codingAgent{
		name: "claude", program: "claude", protocol: gatewaytest.Messages,
		args: func(_, prompt string) []string {
			return []string{"-p", prompt, "--output-format", "json", "--dangerously-skip-permissions"}
		},
		env: []string{
			"IS_SANDBOX=1", "ANTHROPIC_API_KEY=key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1",
			"DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		},
		allowed: gatewaytest.Call{ID: "toolu_1", Name: "Write",
			Arguments: object("file_path", "DIR/allowed.txt", "content", letter)},
		made: gatewaytest.Call{ID: "toolu_2", Name: "Bash",
			Arguments: object("command", "touch "+forbidden, "description", "Make a file")},
		rule:           `{"tools":["Bash"],"action":"deny"}`,
		keepsReasoning: true,
	}
}

// codex returns Codex with a model that has functions.
func codex() codingAgent {
	return codingAgent{
		name: "codex", program: "codex", protocol: gatewaytest.Responses,
		args:  codexArgs("-m", "gpt-5.5"),
		env:   []string{"CODEX_API_KEY=key", "CODEX_HOME=DIR/.codex", "RUST_LOG=error"},
		files: map[string]string{".codex/config.toml": ""},
		allowed: gatewaytest.Call{ID: "call_1", Name: "apply_patch", Custom: true,
			Arguments: "*** Begin Patch\n*** Add File: allowed.txt\n+" + letter + "\n*** End Patch"},
		made:           gatewaytest.Call{ID: "call_2", Name: "exec_command", Arguments: object("cmd", "touch "+forbidden)},
		rule:           `{"tools":["exec_command"],"action":"deny"}`,
		keepsReasoning: true,
	}
}

// codexInCodeMode returns Codex with its default model, whose only tool runs JavaScript.
func codexInCodeMode() codingAgent {
	program := func(command string) string {
		return fmt.Sprintf("const r = await tools.exec_command({cmd: %q}); text(r.output);", command)
	}
	a := codex()
	a.name, a.args = "codex in code mode", codexArgs()
	a.allowed = gatewaytest.Call{ID: "call_1", Name: "exec", Custom: true,
		Arguments: program("echo '" + letter + "' > allowed.txt")}
	a.made = gatewaytest.Call{ID: "call_2", Name: "exec", Custom: true, Arguments: program("touch " + forbidden)}
	a.rule = `{"tools":["exec"],"action":"deny","arguments":[{"path":"input","pattern":"denied\\.txt"}]}`
	return a
}

// codexWithLogin returns Codex with a ChatGPT login, whose token is not an API key.
func codexWithLogin() codingAgent {
	part := func(fields map[string]any) string {
		b, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	token := part(map[string]any{"alg": "none"}) + "." + part(map[string]any{
		"email": "user@example.com", "exp": time.Now().Add(240 * time.Hour).Unix(),
		"https://api.openai.com/auth": map[string]string{"chatgpt_plan_type": "plus", "chatgpt_account_id": "account"},
	}) + ".c2ln"
	login, err := json.Marshal(map[string]any{
		"auth_mode": "chatgpt", "last_refresh": time.Now().Format(time.RFC3339),
		"tokens": map[string]string{
			"id_token": token, "access_token": token, "refresh_token": "refresh", "account_id": "account",
		},
	})
	if err != nil {
		panic(err)
	}
	a := codex()
	a.name = "codex with a login"
	a.env = []string{"CODEX_HOME=DIR/.codex", "RUST_LOG=error"}
	a.files = map[string]string{".codex/config.toml": "", ".codex/auth.json": string(login)}
	a.credentials = map[string]string{"Authorization": "Bearer " + token, "Chatgpt-Account-Id": "account"}
	return a
}

func codexArgs(model ...string) func(at, prompt string) []string {
	return func(at, prompt string) []string {
		args := []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json",
			"-c", "analytics.enabled=false"}
		if at != "" {
			args = append(args, "-c", fmt.Sprintf("openai_base_url=%q", at+"/v1"),
				"-c", "features.enable_request_compression=false")
		}
		return append(append(args, model...), prompt)
	}
}

// opencode returns opencode with one of its packages for model APIs.
func opencode(protocol, provider string) codingAgent {
	settings := map[string]any{
		"autoupdate": false, "share": "disabled", "model": "gw/m", "small_model": "gw/small",
		"enabled_providers": []string{"gw"},
		"provider": map[string]any{"gw": map[string]any{
			"npm":     provider,
			"options": map[string]string{"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "key"},
			"models":  map[string]any{"m": map[string]string{"name": "m"}, "small": map[string]string{"name": "s"}},
		}},
	}
	b, err := json.Marshal(settings)
	if err != nil {
		panic(err)
	}
	return codingAgent{
		name: "opencode, " + protocol, program: "opencode", optional: true, protocol: protocol,
		args: func(_, prompt string) []string { return []string{"run", "-m", "gw/m", "--format", "json", prompt} },
		env: []string{
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		},
		files: map[string]string{"opencode.json": string(b)},
		allowed: gatewaytest.Call{ID: "call_1", Name: "write",
			Arguments: object("filePath", "DIR/allowed.txt", "content", letter)},
		made: gatewaytest.Call{ID: "call_2", Name: "bash",
			Arguments: object("command", "touch "+forbidden, "description", "Make a file")},
		rule: `{"tools":["bash"],"action":"deny"}`,
	}
}

// object returns an object of strings as JSON, from names and values.
func object(members ...string) string {
	m := map[string]string{}
	for i := 0; i < len(members); i += 2 {
		m[members[i]] = members[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestCodingAgents runs unmodified coding agents behind wrap and behind gateway, with three modules.
// The model calls two tools at once. In one run a module denies the second call, in the other both
// calls are allowed. The test checks which files exist afterwards, and what the upstream received.
func TestCodingAgents(t *testing.T) {
	longtest.Skip(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	installed, err := npmtest.Install(filepath.Join("testdata", "npm"), filepath.Join(root, "build", "npm"))
	require.NoError(t, err)
	// npmtest.Install does not run install scripts. This one installs the program for this machine.
	setUp := exec.CommandContext(t.Context(), "node", "install.cjs")
	setUp.Dir = filepath.Join(installed, "node_modules", "@anthropic-ai", "claude-code")
	out, err := setUp.CombinedOutput()
	require.NoError(t, err, "%s", out)
	path := filepath.Join(installed, "node_modules", ".bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	t.Setenv("PATH", path)
	var modules []string
	for _, name := range []string{"redact", "tool-policy", "trace"} {
		module, err := guestbuild.Module(t.Context(), root, "examples/wasm-middlewares/"+name)
		require.NoError(t, err)
		modules = append(modules, module)
	}
	for _, a := range []codingAgent{
		claude(), codex(), codexInCodeMode(), codexWithLogin(),
		opencode(gatewaytest.Chat, "@ai-sdk/openai-compatible"), opencode(gatewaytest.Responses, "@ai-sdk/openai"),
		opencode(gatewaytest.Messages, "@ai-sdk/anthropic"),
	} {
		for _, surface := range []string{"wrap", "gateway"} {
			for _, rules := range []string{"[" + a.rule + "]", "[]"} {
				name := a.name + ", " + surface + ", denied"
				if rules == "[]" {
					name = a.name + ", " + surface + ", allowed"
				}
				t.Run(name, func(t *testing.T) {
					if _, err := exec.LookPath(a.program); err != nil && a.optional {
						t.Skip(err)
					}
					r := &agentRun{codingAgent: a, dir: t.TempDir(), denies: rules != "[]", modules: modules,
						configs: []string{`{"reversible":true}`, `{"rules":` + rules + `}`, `{"level":"error"}`}}
					r.run(t, surface)
				})
			}
		}
	}
}

// An agentRun is one run of a coding agent.
type agentRun struct {
	codingAgent
	dir              string
	modules, configs []string
	denies           bool
	upstream         *gatewaytest.Upstream
}

func (r *agentRun) run(t *testing.T, surface string) {
	r.upstream = gatewaytest.NewUpstream(r.answer)
	defer r.upstream.Close()
	for name, content := range r.files {
		file := filepath.Join(r.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	said := r.wrapped
	if surface == "gateway" {
		said = r.behindGateway
	}
	r.check(t, said(t))
}

// answer is the script of the model.
func (r *agentRun) answer(q *gatewaytest.Request) *gatewaytest.Answer {
	if q.Results > 0 || !slices.Contains(q.Tools, r.made.Name) {
		return &gatewaytest.Answer{Text: "All is done."}
	}
	allowed, found := r.allowed, placeholder.FindStringSubmatch(q.Body)
	if found == nil {
		return &gatewaytest.Answer{Text: "The prompt has no placeholder."}
	}
	allowed.Arguments = strings.NewReplacer("DIR", r.dir, "PLACEHOLDER", found[1]).Replace(allowed.Arguments)
	return &gatewaytest.Answer{
		Reasoning: "Both at once.", Text: "I do both.", Calls: []gatewaytest.Call{allowed, r.made},
	}
}

// wrapped runs the program behind wrap, and returns the output.
func (r *agentRun) wrapped(t *testing.T) string {
	args := []string{"wrap", "--upstream", r.upstream.URL}
	for i, module := range r.modules {
		name := strings.TrimSuffix(filepath.Base(module), ".wasm")
		args = append(args, "-m", module, "--module-config", name+"="+r.configs[i])
	}
	args = append(append(args, r.program, "--"), r.args("", prompt)...)
	said := r.execute(t, "agent-runner", args)
	if r.denies {
		require.Contains(t, said, "tool-policy denied a call of "+r.made.Name)
	}
	return said
}

// behindGateway runs the program with the address of a gateway, and returns the output.
func (r *agentRun) behindGateway(t *testing.T) string {
	entries := ""
	for i, module := range r.modules {
		entries += fmt.Sprintf("  - {module: %q, config: %s}\n", module, r.configs[i])
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "routes:\n- protocol: %s\n  upstream: %q\n  middlewares:\n%s",
		r.protocol, r.upstream.URL, entries), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	gateway := exec.CommandContext(ctx, "agent-runner", "gateway", "--listen", "127.0.0.1:0", file)
	gateway.Env = r.environment()
	log, err := gateway.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, gateway.Start())
	lines := bufio.NewReader(log)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	_, at, ok := strings.Cut(strings.TrimSpace(first), "gateway at ")
	require.True(t, ok, first)
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(lines)
		rest <- string(b)
	}()
	r.env = append(slices.Clone(r.env), "ANTHROPIC_BASE_URL="+at, "OPENAI_BASE_URL="+at+"/v1")
	said := r.execute(t, r.program, r.args(at, prompt))
	stop()
	said += <-rest
	_ = gateway.Wait()
	return said
}

// environment returns the environment of the programs, which contains none of the user's settings.
func (r *agentRun) environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "TERM=dumb", "LANG=C.UTF-8",
		hosting.EnvCacheDir + "=" + testcache.Modules()}
	for _, e := range r.env {
		env = append(env, strings.ReplaceAll(e, "DIR", r.dir))
	}
	return env
}

// execute runs a command in the run's directory, and returns its output. It ignores the exit code,
// which is 0 even if a tool did not run.
func (r *agentRun) execute(t *testing.T, program string, args []string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.environment(), time.Second
	said, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%s", said)
	return fmt.Sprintf("%s\n%s: %v\n", said[max(0, len(said)-4000):], program, err)
}

// check checks which files the program wrote, and what the upstream received. said is the program's
// output.
func (r *agentRun) check(t *testing.T, said string) {
	written, err := os.ReadFile(filepath.Join(r.dir, "allowed.txt"))
	require.NoError(t, err, said)
	require.Equal(t, "A note for ann@example.com", strings.TrimSpace(string(written)), said)
	if r.denies {
		require.NoFileExists(t, filepath.Join(r.dir, forbidden), said)
	} else {
		require.FileExists(t, filepath.Join(r.dir, forbidden), said)
	}
	require.Contains(t, said, "All is done.")

	calls, results := []string{r.allowed.ID}, 0
	if !r.denies {
		calls = append(calls, r.made.ID)
	}
	for _, q := range r.upstream.Requests() {
		require.NotContains(t, q.Body, "ann@example.com")
		require.Equal(t, r.protocol, q.Protocol)
		for name, value := range r.credentials {
			require.Equal(t, value, q.Header.Get(name))
		}
		if q.Results == 0 {
			continue
		}
		results++
		require.Equal(t, calls, q.Calls)
		require.Len(t, calls, q.Results)
		require.Equal(t, r.denies, strings.Contains(q.Body, "denied the call of "+r.made.Name), q.Body)
		if r.keepsReasoning {
			require.Contains(t, q.Body, gatewaytest.Signature)
		}
	}
	require.Equal(t, 1, results, "the agent sends the results once; %s", said)
}
