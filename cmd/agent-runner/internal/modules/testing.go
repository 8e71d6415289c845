package modules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/conformance"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// conversationTimeout bounds one conversation, including loading its modules.
const conversationTimeout = 2 * time.Minute

// A tester runs test conversations with a module.
type tester struct {
	env      *cli.Env
	loader   *module.Loader
	path     string // the module's path
	update   bool
	types    bool // check types with TypeScript's compiler
	output   string
	failed   int
	differs  bool // a result differed from an expectation
	outcomes []testOutcome
	written  []string // files that the last run may have written: the module and updated conversations
}

type testOutcome struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Text   string `json:"text,omitempty"` // the differences or the error
	TimeMS int64  `json:"time_ms"`
}

// newTest returns the command that runs a module's test conversations.
func newTest(e *cli.Env) *cobra.Command {
	var output, cacheDir string
	var update, watch, types bool
	cmd := &cobra.Command{
		Use:   "test PATH [CASE.txtar …]",
		Short: "Test a module against recorded conversations",
		Long: `Runs test conversations with a module in the real host, with a scripted model: all
*.txtar files next to the module and in its testdata folder, or the named ones. If PATH
is a source folder, the module is built first.

The comment at the head of a conversation says what it tests. Its files:

  agent.yaml       optional: middlewares (module: NAME.wasm with name, config, grants,
                   on_fault, ring), instruction, limits, timeout, "runs: 2" for two
                   runs with the same messages; default: only the module
  tools            one tool per line: "name: result", "name! error" if it fails, or
                   "name!! text" if it panics; more lines answer later calls. "name after
                   other: …" waits for the other's result, "name cancels: …" cancels the
                   run, "name streams: a|b" streams its result in two chunks
  messages         earlier messages, one per line; default: "user: hi"
  model            the model's replies in order, one per line: a message, "size N MESSAGE"
                   to stream it N characters at a time, or JSON with message, usage,
                   chunks, size, delay_ms, error {"code", "message"} or "hang": true
  answers          the answers to pauses, one line of JSON each, or "#id JSON" for one call
  request N        expected: the messages in model call N
  told N           expected: the tools declared in model call N
  asked            expected: the model and parameters of each model call
  events [TYPES]   expected: the events of the run
  client [TYPES]   expected: the events that an AG-UI client receives
  state            expected: the messages at the end
  error            expected: the run does not start; the error contains this text

A message is "role: text [tool#id {arguments}] …". A conversation fails if the module
answers with an unknown key. docs/conversations.md of the project describes every part.

--update never expects a missing reply of the model, or a fault unless events lists it.

With --types, TypeScript's compiler tsc also checks the types of a TypeScript module, if
it is installed in the project or in PATH. It uses the project's tsconfig.json.

Exit codes: 0 all passed, 1 some failed, 2 nothing to run.`,
		Example: `  agent-runner module test guard.ts
  agent-runner module test ./mine --types --watch
  agent-runner module test redact.wasm conversation.txtar --update`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("want a module: agent-runner module test PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return cli.Usagef("-o is %q; want text or json", output)
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			t := &tester{env: e, update: update, types: types, output: output}
			if !watch {
				return t.run(ctx, cmd, args, cacheDir)
			}
			return t.watch(ctx, cmd, args, cacheDir)
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "update the expectations of failing conversations to the actual results")
	cmd.Flags().BoolVar(&watch, "watch", false, "rerun whenever a file changes, until Ctrl-C")
	cmd.Flags().BoolVar(&types, "types", false, "check the types of a TypeScript module with tsc, if it is installed")
	moduleFlags(cmd, &output, &cacheDir)
	return cmd
}

var errTestCanceled = cli.Ended(cli.ExitCanceled, errors.New("the test was canceled"))

// run builds the module if necessary, checks its types if t.types is set, and runs all conversations
// once.
func (t *tester) run(ctx context.Context, cmd *cobra.Command, args []string, cacheDir string) error {
	t.failed, t.differs, t.outcomes, t.written = 0, false, nil, nil
	if t.types {
		if err := t.checkTypes(ctx, args[0]); err != nil {
			return err
		}
	}
	path, err := hosting.Buildable(ctx, t.env, args[0])
	if path != args[0] && filepath.Ext(path) == ".wasm" {
		t.written = append(t.written, path)
	}
	if ctx.Err() != nil {
		return errTestCanceled
	}
	if err != nil {
		return err
	}
	t.path = path
	cases, err := casesOf(args[0], path, args[1:])
	if err != nil {
		return err
	}
	h, err := moduleHost(ctx, t.env, cmd, host.Options{CacheDir: cacheDir})
	if err != nil {
		return err
	}
	defer hosting.CloseHost(h)
	t.loader = h.Loader()
	for _, c := range cases {
		t.one(ctx, c)
		if ctx.Err() != nil {
			return errTestCanceled
		}
	}
	return t.report()
}

// one runs one conversation and adds the result, unless ctx is done.
func (t *tester) one(ctx context.Context, path string) {
	began := time.Now()
	text, err := t.play(ctx, path)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		text = err.Error()
	} else if text != "" {
		t.differs = true
	}
	t.add(path, text, began)
}

// add records the result of a check, which passed if text is empty. It also prints the result unless
// the output is JSON.
func (t *tester) add(name, text string, began time.Time) {
	o := testOutcome{Name: name, OK: text == "", Text: text, TimeMS: time.Since(began).Milliseconds()}
	t.outcomes = append(t.outcomes, o)
	if !o.OK {
		t.failed++
	}
	if t.output == "json" {
		return
	}
	word := "ok   "
	if !o.OK {
		word = "FAIL "
	}
	fmt.Fprintf(t.env.Out, "%s %s  %d ms\n", word, cli.Clean(o.Name), o.TimeMS)
	for line := range strings.Lines(o.Text) {
		fmt.Fprintf(t.env.Out, "      %s\n", cli.Clean(strings.TrimRight(line, "\n")))
	}
}

// play runs a conversation and returns the differences from its expectations, followed by
// explanations from explain. With t.update, it writes the results to the conversation's file instead.
func (t *tester) play(ctx context.Context, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	c, err := golden.Parse(filepath.Base(path), text)
	if err != nil {
		return "", err
	}
	h := &conformance.Host{
		Middleware: t.middleware,
		Default:    &wire.Middleware{Name: stem(t.path), Module: filepath.Base(t.path)},
	}
	bounded, cancel := context.WithTimeout(ctx, conversationTimeout)
	defer cancel()
	outcome, err := h.Run(bounded, c.Request())
	if err != nil {
		return "", err
	}
	if bounded.Err() != nil {
		return "", fmt.Errorf("it did not end within %s: a reply hangs, or a tool waits for another; "+
			"to test that, set timeout in agent.yaml", conversationTimeout)
	}
	differences, err := c.Compare(outcome, true)
	switch {
	case err != nil:
		return "", err
	case len(differences) > 0 && differences[0].Part == "start":
		return "", fmt.Errorf("the run did not start: %s", outcome.Refused)
	case t.update && len(differences) > 0 && c.Unused(outcome) == "":
		return t.rewrite(path, c, outcome)
	}
	var out strings.Builder
	for _, d := range differences {
		out.WriteString(d.String())
	}
	if defect := c.Defect(outcome); defect != "" && len(differences) > 0 {
		out.WriteString(defect + "\n")
	}
	if unused := c.Unused(outcome); unused != "" {
		out.WriteString(unused + "\n")
	}
	return out.String() + explain(outcome, len(differences) > 0), nil
}

// rewrite writes the actual results into a conversation's file. It writes nothing and returns an
// explanation if the conversation is invalid, or if the module answers with an unknown key or faults.
// A conversation that expects events of type fault may have faults.
func (t *tester) rewrite(path string, c *golden.Case, outcome *wire.Outcome) (string, error) {
	if text := explain(outcome, !c.ExpectsEvent(abi.EventFault)); text != "" {
		return text + "not updated: fix the module; to expect a fault, add it to an events part\n", nil
	}
	text, err := c.Update(outcome)
	if err != nil {
		return "", fmt.Errorf("not updated: %w", err)
	}
	t.written = append(t.written, path)
	return "", os.WriteFile(path, text, 0o644)
}

// explain returns a list of the unknown keys in the module's answers and, if faults is set, of the
// faults, one per line.
func explain(outcome *wire.Outcome, faults bool) string {
	var text strings.Builder
	for _, e := range outcome.Events {
		switch {
		case e.Type == abi.EventLog && e.Level == "warn" && strings.Contains(e.Text, "unknown key "):
			fmt.Fprintf(&text, "%s: %s\n", e.Hook, e.Text)
		case e.Type == abi.EventFault && faults:
			fmt.Fprintf(&text, "%s faulted in %s: %s\n", e.Entry, e.Hook, e.Cause)
			for _, line := range e.Stderr { // positions in the source, in some languages
				if !strings.Contains(e.Cause, line) {
					fmt.Fprintf(&text, "  | %s\n", line)
				}
			}
		}
	}
	return text.String()
}

// middleware loads and configures the module that m names: the tested module, or another one in the
// same folder.
func (t *tester) middleware(ctx context.Context, m *wire.Middleware) (hook.Middleware, error) {
	if filepath.Ext(m.Module) == ".go" {
		return nil, errors.New("a conversation names modules by file; sources embedded in it are not built")
	}
	path := t.path
	if stem(m.Module) != stem(path) {
		path = filepath.Join(filepath.Dir(t.path), m.Module)
	}
	loaded, err := t.loader.Load(ctx, path, policy.Limits{})
	if err != nil {
		return nil, err
	}
	defer loaded.Close() // the configured entry keeps its own reference
	return conformance.Configure(ctx, loaded, m)
}

func stem(path string) string {
	name := filepath.Base(path)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// casesOf returns the named conversations or, if none are named, all in the module's folder and its
// testdata folder. It fails if these folders have none.
func casesOf(asked, module string, named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	folder := asked
	info, err := os.Stat(asked)
	if err != nil {
		return nil, cli.Usagef("%s: %v; want a module or its folder; create one with: agent-runner module new",
			asked, cli.Bare(err))
	}
	if !info.IsDir() {
		folder = filepath.Dir(module)
	}
	var out []string
	for _, pattern := range []string{"*.txtar", filepath.Join("testdata", "*.txtar")} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return nil, cli.Usagef(
			"no conversation in %s: write one, such as conversation.txtar; see agent-runner module test --help",
			folder,
		)
	}
	return out, nil
}

// report prints the results if the output is JSON, and returns an error if a conversation failed.
func (t *tester) report() error {
	if t.output == "json" {
		if err := cli.PrintJSON(t.env, struct {
			Path  string        `json:"path"`
			Cases []testOutcome `json:"cases"`
		}{t.path, t.outcomes}); err != nil {
			return err
		}
	}
	if t.failed > 0 {
		advice, what := "", "conversation"
		if t.types {
			what = "check" // the types are one
		}
		if t.differs {
			advice = "; if the module is right, update the expectations with --update"
		}
		return cli.Ended(cli.ExitFailed,
			fmt.Errorf("%d of %s failed%s", t.failed, cli.Count(int64(len(t.outcomes)), what), advice))
	}
	return nil
}
