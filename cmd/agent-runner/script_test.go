package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/testcache"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// TestMain makes the test binary act as each of programs, so that the scripts in testdata can run
// the command in a separate process against scripted models. In addition to testscript's
// commands, scripts can use:
//
//	model FILE               starts an endpoint at $URL that replies with FILE's lines
//	exits CODE COMMAND …     runs a command and checks its exit code
//	interrupt TEXT COMMAND … runs a command, and sends it SIGINT once TEXT shows;
//	                         TEXT,TEXT sends two. Its output is in the files out
//	                         and err, and it must exit with 130
//	events FILE              checks events, one per line, and writes their summaries to
//	                         FILE.events, with URL for $URL
//	says FILE DESCRIBE HOOK  creates a module that answers every hook with HOOK
//	id FILE                  sets $ID to the run of the events in FILE
//	site FILE                starts a server at http://$SITE that writes the Authorization
//	                         header and the body of each request to FILE, and echoes them
//	requests FILE            writes the request bodies that the endpoint received
//	server FLAGS …           starts or replaces the server at $SERVER
//	endserver ENDS SIGNAL …  sends the server TERM, INT or KILL, the second one when it
//	                         reports the first, and waits until it exits with ENDS, such
//	                         as 'exit status 0'. Its output is in the files out and err
//	doccommands PAGE FILE    writes the shell commands of a page of docs to FILE
//	quickstart               writes the commands of the platform's quick start to one.sh
//	                         and two.sh, for the first and the second terminal
//	setfrom NAME FILE [RE]   sets $NAME to the content of FILE, or to the first group of RE
func TestMain(m *testing.M) {
	if os.Getenv(envCrashing) != "" || child.IsChild() {
		crashingMain()
	}
	testscript.Main(m, programs)
}

// programs lists the programs that scripts and tests can start.
var programs = map[string]func(){"agent-runner": main, "mcp-server": mcpServer}

var update = flag.Bool("update", false, "write the expected output of scripts anew")

func TestScripts(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Abs("../../testdata/modules")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	// Add AssemblyScript's compiler if npm can install it.
	sdk := filepath.Join("..", "..", "guest-sdk", "assemblyscript", "testdata", "npm")
	packages := filepath.Join(filepath.Dir(filepath.Dir(modules)), "build", "npm")
	asc, noASC := npmtest.Install(sdk, packages)
	// Add TypeScript's compiler too.
	tsc, noTSC := npmtest.Install(filepath.Join("..", "..", "guest-sdk", "typescript", "testdata", "npm"), packages)
	conditions := map[string]func() bool{
		"asc":  func() bool { return noASC == nil },
		"tsc":  func() bool { return noTSC == nil },
		"rust": sync.OnceValue(func() bool { return buildsRust(t) }),
		"long": longtest.Enabled,
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("MODULES", modules)
			e.Setenv("DOCS", docs)
			e.Setenv("ASC", asc)
			e.Setenv("TSC", filepath.Join(tsc, "node_modules", ".bin"))
			e.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(caches, "go-build")))
			e.Setenv(hosting.EnvCacheDir, testcache.Modules())
			e.Setenv("OPENAI_API_KEY", "")
			e.Setenv("OPENAI_BASE_URL", "")
			return nil
		},
		Condition: func(name string) (bool, error) {
			holds, ok := conditions[name]
			if !ok {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return holds(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model":       startModel,
			"exits":       exits,
			"interrupt":   interrupt,
			"events":      events,
			"says":        says,
			"requests":    requests,
			"id":          runID,
			"site":        startSite,
			"server":      startServer,
			"endserver":   endServer,
			"setfrom":     setFrom,
			"quickstart":  quickStart,
			"doccommands": docCommands,
		},
	})
}

// buildsRust reports whether there is a Rust compiler for modules.
func buildsRust(t *testing.T) bool {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Cargo.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := toolchain.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	var missing *toolchain.MissingError
	return !errors.As(p.Build(t.Context(), p.Output()), &missing) // the empty project does not build
}

// servers holds the model endpoints of running scripts, by script name.
var servers sync.Map

func startModel(ts *testscript.TestScript, _ bool, args []string) {
	replies, err := scripted.Parse([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	server, err := openaitest.New(scripted.New(replies...))
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("URL", server.URL)
	servers.Store(ts.Name(), server)
}

func startSite(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		fmt.Fprintf(io.MultiWriter(w, file), "%s: %s\n", r.Header.Get("Authorization"), body)
	}))
	ts.Defer(func() {
		server.Close()
		_ = file.Close()
	})
	ts.Setenv("SITE", server.Listener.Addr().String())
}

func requests(ts *testscript.TestScript, _ bool, args []string) {
	var b strings.Builder
	if server, ok := servers.Load(ts.Name()); ok {
		for _, r := range server.(*openaitest.Server).Requests() {
			fmt.Fprintf(&b, "%s %s\n", r.Header.Get("Authorization"), r.Body)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("it exited with %d, want %d", got, want)
	}
}

func runID(ts *testscript.TestScript, _ bool, args []string) {
	var e abi.Event
	line, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	if _, err := abijson.Decode([]byte(line), &e); err != nil || e.Run == "" {
		ts.Fatalf("%s does not begin with an event of a run: %v", args[0], err)
	}
	ts.Setenv("ID", e.Run)
}

func says(ts *testscript.TestScript, _ bool, args []string) {
	b, err := os.ReadFile(filepath.Join(ts.Getenv("MODULES"), "says.wasm"))
	ts.Check(err)
	for i, letter := range []string{"D", "H"} {
		text := args[1+i]
		b = bytes.Replace(b, bytes.Repeat([]byte(letter), 4096), []byte(text+strings.Repeat(" ", 4096-len(text))), 1)
	}
	b = bytes.Replace(b, []byte("configure"), []byte("not_asked"), 1) // HOOK is not a valid answer of configure
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

func events(ts *testscript.TestScript, _ bool, args []string) {
	var b strings.Builder
	var last abi.Event
	for i, line := range strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n") {
		var e abi.Event
		if unknown, err := abijson.Decode([]byte(line), &e); err != nil || len(unknown) > 0 {
			ts.Fatalf("line %d is no event: %v %v: %s", i+1, err, unknown, line)
		}
		if last.Type == abi.EventRunFinished {
			last.Seq, last.Run = 0, e.Run // the event belongs to another run
		}
		if e.Seq != last.Seq+1 || e.Run == "" || last.Run != "" && e.Run != last.Run {
			ts.Fatalf("line %d: event %d of run %s after event %d of run %s", i+1, e.Seq, e.Run, last.Seq, last.Run)
		}
		last = e
		b.WriteString(golden.FormatEvent(e) + "\n")
	}
	if last.Type != abi.EventRunFinished && last.Type != abi.EventRunPaused {
		ts.Fatalf("the last event is %s", last.Type)
	}
	text := b.String()
	if url := ts.Getenv("URL"); url != "" {
		text = strings.ReplaceAll(text, url, "URL")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0])+".events", []byte(text), 0o600))
}

// A watch collects the output of a process, and reports when a given string appears in it.
type watch struct {
	mu   sync.Mutex
	all  bytes.Buffer // stdout and stderr
	one  [2]bytes.Buffer
	more chan struct{}
}

type watchEnd struct {
	w *watch
	n int
}

func (e watchEnd) Write(b []byte) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.w.all.Write(b)
	e.w.one[e.n].Write(b)
	select {
	case e.w.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

// wait waits until the text appears. It returns false if the process ended first.
func (w *watch) wait(text string, ended <-chan error) bool {
	for {
		w.mu.Lock()
		shows := strings.Contains(w.all.String(), text)
		w.mu.Unlock()
		if shows {
			return true
		}
		select {
		case <-w.more:
		case <-ended:
			return false
		}
	}
}

func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	w := &watch{more: make(chan struct{}, 1)}
	never, end, err := os.Pipe() // standard input stays open and empty
	ts.Check(err)
	defer never.Close()
	defer end.Close()
	cmd.Stdin = never
	cmd.Stdout, cmd.Stderr = watchEnd{w, 0}, watchEnd{w, 1}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	for _, text := range strings.Split(args[0], ",") {
		if !w.wait(text, ended) {
			ts.Fatalf("it ended before %q showed:\n%s", text, w.all.String())
		}
		ts.Check(cmd.Process.Signal(os.Interrupt))
	}
	<-ended
	ts.Check(os.WriteFile(ts.MkAbs("out"), w.one[0].Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), w.one[1].Bytes(), 0o600))
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitCanceled {
		ts.Fatalf("it exited with %d, want %d:\n%s", code, cli.ExitCanceled, w.all.String())
	}
}

// mcpServer runs an MCP server on standard input and output. Its one tool returns the arguments
// of the process and of the call.
func mcpServer() {
	type args struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: os.Getenv("MCP_TOOL") + "echo", Description: "Says it again."},
		func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Args[1:], " ") + in.Text}},
			}, nil, nil
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
