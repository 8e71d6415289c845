package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/testcache"
	"github.com/agent-runner/agent-runner/tck"
)

var update = flag.Bool("update", false, "write what came out into the cases that expect something else")

const root = "../.."

// asHost is the environment variable that makes the test binary serve as a host instead of running
// tests. Its value is a key of hosts.
const asHost = "CONFORMANCE_HOST"

func TestMain(m *testing.M) {
	if name := os.Getenv(asHost); name != "" {
		if err := serve(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs the host called name on standard input and output.
func serve(name string) error {
	loader, err := openLoader(context.Background())
	if err != nil {
		return err
	}
	defer loader.Close(context.Background())
	h := &Host{Middleware: (&Modules{Loader: loader}).Middleware}
	return wire.Serve(context.Background(), hosts[name](h), os.Stdin, os.Stdout)
}

// hosts has this project's host as "right", and variants with one mistake each.
var hosts = map[string]func(h *Host) tck.Host{
	"right": func(h *Host) tck.Host { return h },
	"drops a hook": func(h *Host) tck.Host {
		return &wrong{Host: h, request: func(r *wire.Request) {
			for i := range r.Agent.Middlewares {
				m := &r.Agent.Middlewares[i]
				m.Hooks = slices.DeleteFunc(m.Hooks, func(h abi.Hook) bool { return h == contract.HookAfterTool })
			}
		}}
	},
	"reorders entries": func(h *Host) tck.Host {
		return &wrong{Host: h, request: func(r *wire.Request) { slices.Reverse(r.Agent.Middlewares) }}
	},
	"loses arguments": func(h *Host) tck.Host {
		return &wrong{Host: h, outcome: func(o *wire.Outcome) {
			for i := range o.ToolCalls {
				o.ToolCalls[i].Arguments = "{}"
			}
		}}
	},
	"hides calls of tools": func(h *Host) tck.Host {
		return &wrong{Host: h, outcome: func(o *wire.Outcome) { o.ToolCalls = nil }}
	},
	"changes a code": func(h *Host) tck.Host {
		return &wrong{Host: h, outcome: func(o *wire.Outcome) {
			for _, e := range o.Events {
				if e.Error != nil && e.Error.Code == abi.CodeInternal {
					e.Error.Code = abi.CodeInvalid
				}
			}
		}}
	},
}

// A wrong is a host with one mistake in its requests or outcomes.
type wrong struct {
	*Host
	request func(r *wire.Request)
	outcome func(o *wire.Outcome)
}

func (w *wrong) Run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	if w.request != nil {
		w.request(r)
	}
	o, err := w.Host.Run(ctx, r)
	if err == nil && w.outcome != nil {
		w.outcome(o)
	}
	return o, err
}

// startHost returns the host called name, which runs in a process of its own.
func startHost(t *testing.T, name string) tck.Host {
	t.Helper()
	t.Setenv(asHost, name)
	self, err := os.Executable()
	require.NoError(t, err)
	h, stop := tck.NewProgram(self)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return h
}

func goldenCases(t *testing.T) []*golden.Case {
	t.Helper()
	cases, err := golden.Load(os.DirFS(filepath.Join(root, "tck", "cases")))
	require.NoError(t, err)
	return cases
}

// TestCases checks that every golden case passes with real modules in the real host.
func TestCases(t *testing.T) {
	options := tck.Options{Parallel: true}
	if *update {
		requireKnown(t)
		options.Update = filepath.Join(root, "tck", "cases")
	}
	tck.Run(t, newHost(t), &options)
}

// requireKnown fails if git does not track a case. The expectations of a new case must be written
// by hand from the rule before an update overwrites them.
func requireKnown(t *testing.T) {
	t.Helper()
	out, err := exec.Command("git", "-C", filepath.Join(root, "tck", "cases"), "ls-files", "--others").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out), "a case is new: write what you expect by hand; -update is for cases that were committed")
}

// TestCasesOfExtism checks that every golden case passes with its modules built as Extism plug-ins.
func TestCasesOfExtism(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: only the cases of plain modules and of scripts")
	}
	tck.Run(t, newHost(t), &tck.Options{Transport: "extism", Parallel: true})
}

// TestCasesOfJavaScript checks that golden cases pass with TypeScript modules. It skips cases with
// a module that does not exist in TypeScript.
func TestCasesOfJavaScript(t *testing.T) {
	cases := goldenCases(t)
	tck.Run(t, newHost(t), &tck.Options{
		Transport: "typescript",
		Match: func(name string) bool {
			i := slices.IndexFunc(cases, func(c *golden.Case) bool { return c.Name == name })
			return cases[i].InTypeScript()
		},
		Parallel: true,
	})
}

// TestCasesOfProgram checks that every golden case passes with the host in a process of its own.
func TestCasesOfProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	report, err := tck.Check(t.Context(), startHost(t, "right"), nil)
	require.NoError(t, err)
	for _, r := range report.Results {
		require.Equal(t, "passed", r.Status, "%s: %s %v", r.Name, r.Reason, r.Differences)
	}
	require.Len(t, report.Results, len(goldenCases(t)))
}

// TestWrongHosts checks that the conformance kit reports each mistake of a faulty host.
func TestWrongHosts(t *testing.T) {
	for _, test := range []struct{ host, name, want string }{
		{"drops a hook", "trpc-A47-asked-and-approved", `events tool_call,tool_result,custom,run_paused,run_finished: - expected, + actual
@@ -1,5 +1,4 @@
 tool_call [t#1]
 run_paused h1.gate_tool: Run t? [t#1]
-custom h1.after_tool after "tool"
 tool_result [t#1] tool: t-ok
 run_finished stop assistant: done
`},
		{"reorders entries", "eino-7-model-onion", `state: - expected, + actual
@@ -1,2 +1,2 @@
 user: hi
-assistant: h1(h2(done))
+assistant: h2(h1(done))
`},
		{"changes a code", "eino-12-before-agent-fails", `events: - expected, + actual
@@ -1,1 +1,1 @@
-run_finished error internal: h1: before_agent failed: x
+run_finished error invalid: h1: before_agent failed: x
`},
		{"loses arguments", "eino-45-arguments-rewritten", `tools: - expected, + actual
@@ -1,1 +1,1 @@
-t {"rewritten":true}
+t {}
`},
		{"hides calls of tools", "eino-51-order-of-results", `tools: - expected, + actual
@@ -1,2 +1,1 @@
-slow {}
-fast {}
+
`},
	} {
		t.Run(test.host, func(t *testing.T) {
			only := func(name string) bool { return name == test.name }
			report, err := tck.Check(t.Context(), startHost(t, test.host), &tck.Options{Match: only})
			require.NoError(t, err)
			require.Equal(t, 1, report.Failed)
			require.Len(t, report.Results[0].Differences, 1)
			require.Equal(t, test.want, golden.Difference(report.Results[0].Differences[0]).String())
		})
	}
}

func newHost(t *testing.T) *Host {
	t.Helper()
	return &Host{Middleware: (&Modules{Loader: newLoader(t)}).Middleware}
}

func newLoader(t *testing.T) *module.Loader {
	t.Helper()
	loader, err := openLoader(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	return loader
}

func openLoader(ctx context.Context) (*module.Loader, error) {
	return module.NewLoader(ctx, &module.LoaderOptions{CacheDir: testcache.Modules()})
}
