package module

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/replay"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// loadRecording loads a module whose faults are recorded in dir.
func loadRecording(t *testing.T, dir, name string, limits policy.Limits) *Module {
	t.Helper()
	l := newLoaderWith(t, &LoaderOptions{FaultDir: dir})
	m, err := l.Load(t.Context(), filepath.Join(modules, name), limits)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func bundles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.fault.zip"))
	require.NoError(t, err)
	return paths
}

func onlyBundle(t *testing.T, dir string) *replay.Bundle {
	t.Helper()
	paths := bundles(t, dir)
	require.Len(t, paths, 1)
	b, err := replay.Read(paths[0])
	require.NoError(t, err)
	return b
}

func replayed(t *testing.T, b *replay.Bundle) *replay.Result {
	t.Helper()
	r, err := newLoader(t).Replay(t.Context(), b)
	require.NoError(t, err)
	return r
}

func requireSame(t *testing.T, b *replay.Bundle) *replay.Result {
	t.Helper()
	r := replayed(t, b)
	require.Empty(t, r.Differences)
	require.True(t, r.Same)
	require.Empty(t, r.Incomplete)
	require.Equal(t, b.Call.Fuel, r.Fuel)
	return r
}

// TestReplayFaults checks that each kind of fault is recorded, and that its replay uses exactly the
// same fuel.
func TestReplayFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		letter, limit string
		stage         ending.Stage
		limits        policy.Limits
	}{
		"trap":          {"t", "", ending.StageHook, policy.Limits{}},
		"loop":          {"l", "hook_time", ending.StageHook, policy.Limits{Limits: sandbox.Limits{HookTime: 20 * time.Millisecond}}},
		"fuel":          {"l", "fuel", ending.StageHook, policy.Limits{Limits: sandbox.Limits{Fuel: 1_000_000}}},
		"recursion":     {"d", "stack_bytes", ending.StageHook, policy.Limits{}},
		"memory":        {"m", "memory_bytes", ending.StageHook, policy.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20}}},
		"bounds":        {"p", "", ending.StageHostCall, policy.Limits{}},
		"host calls":    {"h", "host_calls", ending.StageHostCall, policy.Limits{}},
		"output":        {"b", "output_bytes", ending.StageHostCall, policy.Limits{Limits: sandbox.Limits{MemoryBytes: 256 << 20}}},
		"input":         {"x", "input_bytes", ending.StageInput, policy.Limits{InputBytes: 200}},
		"returns 2":     {"r", "", ending.StageAnswer, policy.Limits{}},
		"garbage":       {"g", "", ending.StageAnswer, policy.Limits{}},
		"invalid UTF-8": {"u", "", ending.StageAnswer, policy.Limits{}},
		"bad failure":   {"F", "", ending.StageAnswer, policy.Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tc.limits.HookTime = cmp.Or(tc.limits.HookTime, time.Minute)
			r := open(t, configure(t, loadRecording(t, dir, "puppet.wasm", tc.limits), do(tc.letter)))
			_, err := r.beforeAgent(t)
			var fault *ending.FaultError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, tc.stage, fault.Stage)
			require.Equal(t, tc.limit, fault.Limit)
			require.Equal(t, tc.limit != "", fault.Value > 0)
			require.Equal(t, filepath.Join(modules, "puppet.wasm"), fault.Module)
			event := r.host.faults()[0]
			require.Equal(t, []any{fault.Digest, string(tc.stage), tc.limit, fault.Value},
				[]any{event.Digest, event.Stage, event.Limit, event.Value})

			b := onlyBundle(t, dir)
			require.Equal(t, "guard", b.Entry)
			require.Equal(t, contract.HookBeforeAgent, b.Call.Hook)
			require.Equal(t, ending.FaultText(fault), b.Fault.Cause)
			require.JSONEq(t, do(tc.letter), string(b.Config))
			again := requireSame(t, b)
			if tc.limit != "hook_time" {
				require.Equal(t, b.Fault.Cause, again.Cause)
			}
			requireCausesCompared(t, b)
		})
	}
}

// requireCausesCompared checks that a replay accepts a cause that an earlier version recorded
// without the functions or the printed reason. It must accept no other cause.
func requireCausesCompared(t *testing.T, b *replay.Bundle) {
	t.Helper()
	if b.Fault.Limit == "hook_time" { // the replay runs out of fuel instead
		return
	}
	for _, at := range []string{" in ", " ("} {
		hint := ending.LimitHint(b.Fault.Limit)
		if old, _, found := strings.Cut(strings.TrimSuffix(b.Fault.Cause, hint), at); found {
			earlier := *b
			earlier.Fault.Cause = old + hint
			requireSame(t, &earlier)
		}
	}
	for _, cause := range []string{"", b.Fault.Cause[:1], b.Fault.Cause + " too"} {
		other := *b
		other.Fault.Cause = cause
		require.Len(t, replayed(t, &other).Differences, 1, "%q", cause)
	}
}

// TestReplayHistory checks that a replay reproduces a fault that depends on the instance's earlier
// calls, the clock, random bytes and host replies. It also checks that the replay reports any
// change of the bundle.
func TestReplayHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openRun(t, hook.Entry{
		Name:       "guard",
		Middleware: configure(t, loadRecording(t, dir, "moody.wasm", policy.Limits{}), `{ "spaced": 1 }`),
		Hooks:      []abi.Hook{contract.HookBeforeAgent, contract.HookWrapToolCall},
	})
	slow := func(context.Context, abi.Call) (*abi.Result, error) {
		r.host.tick(90 * time.Second)
		return abi.TextResult("done"), nil
	}
	_, err := r.beforeAgent(t)
	require.NoError(t, err)
	_, err = r.callTool(t.Context(), slow)
	require.NoError(t, err)
	_, err = r.callTool(t.Context(), slow)
	var fault *ending.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, []string{"about to go on", "panic: I am tired"}, fault.Stderr, "what it logged and printed")

	b := onlyBundle(t, dir)
	require.Len(t, b.Earlier, 2)
	require.Equal(t, `{ "spaced": 1 }`, string(b.Config), "byte by byte")
	require.Equal(t, []string{"next", "local_add"}, []string{b.Call.Calls[0].Name, b.Call.Calls[1].Name})
	require.NotEqual(t, b.Earlier[1].Fuel, b.Call.Fuel)
	require.Equal(t, 2, requireSame(t, b).Calls)

	for what, change := range map[string]func(b *replay.Bundle){
		"it used ": func(b *replay.Bundle) { b.Call.Seed = "another" },
		"fuel then, and ": func(b *replay.Bundle) {
			b.Call.Clock[1] += 1e9
		},
		"and the module as it was":                                               func(b *replay.Bundle) { b.Call.Calls[1].Reply = replay.Blob("7777") },
		"it did not fault":                                                       func(b *replay.Bundle) { b.Earlier = b.Earlier[1:] },
		"call 1 of 2 before it, of before_agent: it used ":                       func(b *replay.Bundle) { b.Earlier[0].Seed = "another" },
		"host call 2 is local_add with other arguments; recorded is local_add":   func(b *replay.Bundle) { b.Call.Calls[1].Numbers[0] = 2 },
		"it calls local_add after all 1 recorded host calls":                     func(b *replay.Bundle) { b.Call.Calls = b.Call.Calls[:1] },
		"what the host replied after its first 1 calls was not recorded":         func(b *replay.Bundle) { b.Call.Calls, b.Call.Cut = b.Call.Calls[:1], true },
		"1 of its 3 host calls were not made again":                              func(b *replay.Bundle) { b.Call.Calls = append(b.Call.Calls, replay.HostCall{Name: "next"}) },
		`the cause was "something else", and is "unreachable executed`:           func(b *replay.Bundle) { b.Fault.Cause = "something else" },
		`at stage "answer" with limit "" of 0, and now at stage "hook" with lim`: func(b *replay.Bundle) { b.Fault.Stage = ending.StageAnswer },
		"the guest's stack is another":                                           func(b *replay.Bundle) { b.Fault.Stack[0] = "elsewhere" },
	} {
		b := onlyBundle(t, dir)
		change(b)
		r := replayed(t, b)
		require.False(t, r.Same, what)
		if what != "and the module as it was" {
			require.Contains(t, strings.Join(r.Differences, "\n"), what)
		}
	}
}

// TestReplayJudged checks that a replay reproduces a fault in which the answer can be decoded but
// the chain rejects it.
func TestReplayJudged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openRun(t, hook.Entry{
		Name:       "guard",
		Middleware: configure(t, loadRecording(t, dir, "moody.wasm", policy.Limits{}), ""),
		Hooks:      []abi.Hook{contract.HookGateTool},
	})
	_, err := r.callTool(t.Context(), nil)
	require.NoError(t, err, "a gate that faults denies")
	b := onlyBundle(t, dir)
	require.True(t, b.Fault.Judged)
	require.Equal(t, `decision is "maybe"; want allow, deny, ask or stop`, b.Fault.Cause)
	require.Equal(t, b.Fault.Cause, requireSame(t, b).Cause)
	b.Call.Output = replay.Blob(`{"decision":"allow"}`)
	require.Equal(t, []string{"it wrote another answer"}, replayed(t, b).Differences)
}

// TestReplayLate checks that a replay reproduces a fault in which the host ran out of time while it
// decoded the answer.
func TestReplayLate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openRun(t, hook.Entry{
		Name:       "guard",
		Middleware: configure(t, loadRecording(t, dir, "moody.wasm", policy.Limits{}), ""),
		Hooks:      []abi.Hook{contract.HookGateTool},
	})
	_, err := r.callTool(t.Context(), nil)
	require.NoError(t, err)
	b := onlyBundle(t, dir)
	b.Fault = replay.Fault{Stage: ending.StageHook, Limit: "hook_time", Cause: "its answer could not be read in time"}
	require.Equal(t, b.Fault.Cause, requireSame(t, b).Cause)
	b.Call.Fuel++
	require.Len(t, replayed(t, b).Differences, 1)
}

// TestReplayDropped checks that a replay reports that the history was too large to record.
func TestReplayDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, configure(t, loadRecording(t, dir, "moody.wasm", policy.Limits{InputBytes: 64 << 20}), ""))
	large := chain.Start{Messages: conversation(strings.Repeat("x", 8<<20))}
	for range 2 {
		_, err := r.BeforeAgent(t.Context(), large)
		require.NoError(t, err)
	}
	_, err := r.beforeAgent(t)
	require.Error(t, err)
	b := onlyBundle(t, dir)
	require.Empty(t, b.Earlier)
	require.Equal(t, 2, b.Dropped)
	again := replayed(t, b)
	require.False(t, again.Same)
	require.Contains(t, again.Incomplete, "2 earlier calls of the same instance")
}

// TestBundleFiles checks the permissions and number of bundles. It also checks that no other files
// are removed.
func TestBundleFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "faults")
	m := loadRecording(t, dir, "puppet.wasm", policy.Limits{})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0000 mine.fault.zip"), nil, 0o600))
	const kept = 100
	for i := range kept + 1 {
		name := fmt.Sprintf("20200101T000000.%09dZ-guard-before_agent-abc.fault.zip", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	mw, err := Configure(t.Context(), m, "../../evil", []byte(do("t")), policy.Grants{})
	require.NoError(t, err)
	defer mw.Close()
	r := openRun(t, hook.Entry{Name: "../../evil", Middleware: mw})
	_, err = r.beforeAgent(t)
	require.Error(t, err)

	paths := bundles(t, dir)
	require.Len(t, paths, kept+1)
	require.Equal(t, "0000 mine.fault.zip", filepath.Base(paths[0]))
	require.Contains(t, paths[1], "20200101T000000.000000002Z")
	newest := paths[kept]
	require.Contains(t, newest, "-.._.._evil-before_agent-")
	stat, err := os.Stat(newest)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	stat, err = os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), stat.Mode().Perm())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, kept+1, "nothing temporary")
	b, err := replay.Read(newest)
	require.NoError(t, err)
	requireSame(t, b)
}

// TestHostileBundles checks the errors for malformed bundles.
func TestHostileBundles(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string]map[string]string{
		"bundle.json: is missing; is this a bundle of a fault?":    {"module.wasm": ""},
		"bundle.json: want a JSON value, such as null (at byte 0)": {"bundle.json": "nothing"},
		`bundle.json: version: key "version" is duplicated`:        {"bundle.json": `{"version":1,"version":1}`},
		"version 2; this host knows version 1":                     {"bundle.json": `{"version":2}`},
		"module.wasm: is missing":                                  {"bundle.json": `{"version":1}`},
		`module.wasm has the SHA-256 e3b0c44298fc1c149afbf4c8996`:  {"bundle.json": `{"version":1,"digest":"abc"}`, "module.wasm": ""},
	} {
		path := filepath.Join(t.TempDir(), "x.fault.zip")
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, text := range parts {
			w, err := z.Create(name)
			require.NoError(t, err)
			_, err = w.Write([]byte(text))
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		_, err := replay.Read(path)
		require.ErrorContains(t, err, want)
	}
	_, err := replay.Read(filepath.Join(modules, "puppet.wasm"))
	require.ErrorContains(t, err, "not a valid zip file")

	dir := t.TempDir()
	_, err = open(t, configure(t, loadRecording(t, dir, "puppet.wasm", policy.Limits{}), do("t"))).beforeAgent(t)
	require.Error(t, err)
	b := onlyBundle(t, dir)
	b.Call.Hook = "describe"
	require.Contains(t, replayed(t, b).Differences, "it did not fault")
	b.Limits.MemoryBytes = -1
	_, err = newLoader(t).Replay(t.Context(), b)
	require.ErrorContains(t, err, "a limit is negative")
}

func TestBlob(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "text <&> \u2028", `{"a": 1}`, "\xff\x00", "null"} {
		b, err := abijson.Marshal(replay.Blob(s))
		require.NoError(t, err)
		var again replay.Blob
		_, err = abijson.Decode(b, &again)
		require.NoError(t, err)
		require.Equal(t, s, string(again))
	}
}
