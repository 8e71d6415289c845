package module

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// TestRefused checks that a module that cannot be a middleware is rejected when it is loaded. The
// error names the file, the cause and a fix.
func TestRefused(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	limits := policy.Limits{Limits: sandbox.Limits{HookTime: 50 * time.Millisecond}}
	for file, want := range map[string][]string{
		"no-memory.wasm":        {"does not export its memory", "-Wl,--export-memory"},
		"wrong-hook.wasm":       {"before_agent: want (i32) -> i32, got (i32, i32) -> i64"},
		"hook-is-memory.wasm":   {"exports before_agent as a memory; want a function (i32) -> i32"},
		"unknown-import.wasm":   {"imports agent_middleware_v1.mesages, which ABI version 1 does not have", "did you mean messages?"},
		"import-type.wasm":      {"imports agent_middleware_v1.changed as (i32, i32) -> i32, want (i32, i64) -> i32"},
		"newer-abi.wasm":        {"asks for ABI version 2; this host speaks version 1", "build it with an SDK for version 1"},
		"no-hook.wasm":          {"exports no hook", "export one of before_agent, "},
		"extism-and-abi.wasm":   {"imports agent_middleware_v1 and Extism's functions; a module must", "through extism:host/user"},
		"extism-hook.wasm":      {"before_agent: want () -> i32, got (i32) -> i32"},
		"extism-host.wasm":      {"imports extism:host/user.mesages, which ABI version 1 does not have", "did you mean messages?"},
		"describe-traps.wasm":   {"describe: unreachable executed"},
		"initialize-loops.wasm": {"_initialize: ran longer than 50ms"},
		"large-memory.wasm":     {"asks for 125 MiB of memory from the start, more than the limit of 64 MiB"},
		"missing.wasm":          {"no such file"},
		"no-memory.wat":         {"is WebAssembly text", "wat2wasm"},
		"missing.ts":            {"no such file"},
		"":                      {"is a directory", "name the .wasm file in it"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(modules, "refused", file)
			_, err := l.Load(t.Context(), path, limits)
			var refused *verify.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, path, refused.Name)
			for _, w := range want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestRefusedBytes(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for want, b := range map[string]string{
		"not a WebAssembly module": "hello",
		"WebAssembly text":         "(module)",
		"a component":              "\x00asm\x0d\x00\x01\x00",
		"program for another":      "\x7fELF\x02\x01\x01",
	} {
		_, err := l.LoadBytes(t.Context(), "upload", []byte(b), policy.Limits{})
		require.ErrorContains(t, err, "upload: ")
		require.ErrorContains(t, err, want)
	}
	_, err := l.Load(t.Context(), filepath.Join(modules, "says.wasm"),
		policy.Limits{Limits: sandbox.Limits{ModuleBytes: 1000}})
	require.ErrorContains(t, err, "says.wasm: has more bytes than the limit module_bytes of 1000")
	_, err = l.Load(t.Context(), filepath.Join(modules, "says.wasm"), policy.Limits{HostCalls: -1})
	require.ErrorContains(t, err, "limit host_calls is -1")
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	m, err := loadBytes(
		t,
		answering(
			t,
			`{"name":"guard","version":"1.2.0","description":"Keeps rules.","requires":["gate_tool","messages","hold_stream"],
		"hooks":["configure","before_agent","gate_tool"],"messages":"lazy","events":["tool_call"],"hold_stream":true,"color":"red"}`,
			"",
			0,
		),
		policy.Limits{},
	)
	require.NoError(t, err)
	require.Equal(t, []abi.Hook{contract.HookBeforeAgent, contract.HookGateTool}, m.Info().Hooks)
	require.Equal(t, "guard", m.Info().Description.Name)
	require.Equal(t, []string{"describe: unknown key color"}, m.Info().Warnings)

	d := configure(t, m, "").Describe()
	require.Equal(t, m.Info().Hooks, d.Hooks)
	require.Equal(t, m.Info().Digest, d.Digest)
	require.True(t, d.HoldStream)

	m, err = loadBytes(t, answering(t, "{}", "", 0), policy.Limits{})
	require.NoError(t, err)
	require.Equal(t, calledHooks(), m.Info().Hooks, "without hooks, all exports that are hooks")

	m, err = loadBytes(t, answering(t, `{"hooks":[]}`, "", 0), policy.Limits{})
	require.NoError(t, err)
	require.Empty(t, m.Info().Hooks)
	require.NotNil(t, m.Info().Hooks)
}

func TestDescribeRefused(t *testing.T) {
	t.Parallel()
	for describe, want := range map[string]string{
		`not json`:                      "describe: the answer: want a JSON value",
		`{"name":7}`:                    "describe: the answer: name: want a string",
		`{"requires":["mail"]}`:         `describe: requires "mail", which this host does not have; this host has the hooks before_agent, `,
		`{"requires":["interrupt"]}`:    "and the features changed, config, emit, hold_stream, ",
		`{"hooks":["before_lunch"]}`:    `describe: hooks names "before_lunch", which is not a hook; the hooks are describe, `,
		`{"hooks":["translate_after"]}`: "describe: hooks names translate_after, which the module does not export",
		`{"messages":"some"}`:           `describe: messages is "some"; want full, lazy or none`,
		`{"events":["lunch"]}`:          `describe: events names "lunch", which is not an event; there are run_started `,
		`{"config_schema":7}`:           "describe: config_schema: want an object",
		`{"config_schema":{"$ref":"https://example.com/s"}}`:   `only references within the schema are allowed`,
		`{"version":"1\u001b[2J"}`:                             `describe: version is "1\x1b[2J"; remove characters that do not print`,
		`{"hooks":[` + strings.Repeat(`"on",`, 256) + `"on"]}`: "describe: hooks has 257 names; at most 256 are allowed",
		`{"name":"` + strings.Repeat("n", 129) + `"}`:          "describe: name has 129 bytes; at most 128 are allowed",
	} {
		// The first occurrence is the export.
		b := bytes.Replace(answering(t, describe, "", 0), []byte("translate_after"), []byte("translate_later"), 1)
		_, err := loadBytes(t, b, policy.Limits{})
		var refused *verify.RefusedError
		require.ErrorAs(t, err, &refused, describe)
		require.ErrorContains(t, err, "says.wasm: ")
		require.ErrorContains(t, err, want)
	}
}

// TestBuilding checks which host calls a module can make while its image is built. The module traps
// if one of the other host calls succeeds.
func TestBuilding(t *testing.T) {
	t.Parallel()
	var received bytes.Buffer
	l := newLoaderWith(
		t,
		&LoaderOptions{Logger: slog.New(slog.NewTextHandler(&received, &slog.HandlerOptions{Level: slog.LevelDebug}))},
	)
	m, err := l.Load(t.Context(), filepath.Join(modules, "building.wasm"), policy.Limits{})
	require.NoError(t, err)
	require.JSONEq(t, `{"code":"unavailable","message":"model is not available while the module's image is built"}`,
		string(m.Info().Description.ConfigSchema))
	require.Contains(t, received.String(), "text=started")

	one, two := configure(t, m, `{"a":1}`), configure(t, m, `{"b":22}`)
	for range 2 {
		for mw, want := range map[*Middleware]string{one: "(-a-:1)", two: "(-b-:22)"} {
			start, err := open(t, mw).beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, want, start.Instruction)
		}
	}
}

// TestBuildingLogs checks that log lines of a module that is being loaded have the module's level
// in the operator's log, except that errors become warnings.
func TestBuildingLogs(t *testing.T) {
	t.Parallel()
	var received bytes.Buffer
	l := newLoaderWith(
		t,
		&LoaderOptions{Logger: slog.New(slog.NewJSONHandler(&received, &slog.HandlerOptions{Level: slog.LevelDebug}))},
	)
	loadScript(t, l, `
for (const level of ["debug", "info", "warn", "error"]) console[level](level + "\n{\"level\":\"ERROR\"}");
export default { gateTool() {} };`, policy.Limits{})
	levels := map[string]string{}
	for line := range strings.Lines(received.String()) {
		var said struct {
			Msg, Level, Text string
			Own              string `json:"module_level"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &said))
		if own, _, ok := strings.Cut(said.Text, "\n"); ok && said.Msg == "a module logs while it is loaded" {
			require.Equal(t, own, said.Own)
			levels[own] = said.Level
		}
	}
	require.Equal(t, map[string]string{"debug": "DEBUG", "info": "INFO", "warn": "WARN", "error": "WARN"}, levels)
}

func TestInfo(t *testing.T) {
	t.Parallel()
	info := load(t, "puppet.wasm", policy.Limits{}).Info()
	stat, err := os.Stat(filepath.Join(modules, "puppet.wasm"))
	require.NoError(t, err)
	require.Equal(t, stat.Size(), info.Size)
	require.Len(t, info.Digest, 64)
	require.Equal(t, "native", info.Transport)
	require.Equal(t, int64(4*64<<10), info.Memory.First)
	require.Equal(t, int64(sandbox.DefaultMemoryBytes), info.Memory.Most)
	require.NotEmpty(t, info.Instances)
	require.Len(t, info.Imports, len(plain.Imports()))
	require.Contains(t, info.Imports, Power{
		Module: contract.ImportModule,
		Name:   "messages",
		Type:   "(i32, i32, i32) -> i32",
		Does:   "read the granted part of the conversation",
	})
	require.Contains(t, info.Imports,
		Power{Module: contract.ImportModule, Name: "model", Type: "(i32, i32) -> i32", Does: "call a model", Grant: "model"})

	for _, p := range load(t, "wasi.wasm", policy.Limits{}).Info().Imports {
		require.NotEmpty(t, p.Does, p.Name)
	}
}

// TestTable checks that the ABI's imports have the names and types in the ABI's documentation.
func TestTable(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"read": "(i32, i32) -> i32", "write": "(i32, i32) -> ()", "next": "(i32, i32) -> i32",
		"next_stream": "(i32, i32) -> i32", "recv": "() -> i32", "send": "(i32, i32) -> i32",
		"messages": "(i32, i32, i32) -> i32", "changed": "(i32, i64) -> i32",
		"local_get": "(i32, i32) -> i32", "local_delete": "(i32, i32) -> i32",
		"local_set": "(i32, i32, i32, i32, i64) -> i32", "local_add": "(i32, i32, i64) -> i32",
		"emit": "(i32, i32) -> i32", "config": "() -> i32", "log": "(i32, i32, i32) -> ()",
		"model": "(i32, i32) -> i32", "tool": "(i32, i32) -> i32", "http": "(i32, i32) -> i32",
		"store_get": "(i32, i32) -> i32", "store_delete": "(i32, i32) -> i32",
		"store_set": "(i32, i32, i32, i32, i64, i64) -> i32", "store_add": "(i32, i32, i64) -> i32",
	}
	got := map[string]string{}
	for _, imp := range surface().Imports {
		if imp.Module == javascript.ImportModule || imp.Module == extism.EnvModule || imp.Module == extism.UserModule {
			continue // imports of the engine and of Extism
		}
		require.Equal(t, contract.ImportModule, imp.Module)
		got[imp.Name] = imp.Type().String()
	}
	require.Equal(t, want, got)
}
