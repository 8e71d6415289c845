package main

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/serve"
)

// serving holds the agent-runner servers of running scripts, by script name.
var serving sync.Map

// A servingProcess is a server that a script started.
type servingProcess struct {
	cmd   *exec.Cmd
	out   *watch
	ended chan error
}

// end sends a signal and waits for the process.
func (p *servingProcess) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal)
	<-p.ended
}

var servingAt = regexp.MustCompile(`serving at (http://[^ ,]+)`)

// startServer starts a server with flags. It replaces the script's earlier server and
// listens on the same address.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	if p, ok := serving.LoadAndDelete(ts.Name()); ok {
		p.(*servingProcess).end(syscall.SIGTERM)
	}
	p := &servingProcess{out: &watch{more: make(chan struct{}, 1)}, ended: make(chan error, 1)}
	p.cmd = exec.Command("agent-runner", append([]string{"serve", "--log", "json"}, args...)...)
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = scriptEnv(ts)
	p.cmd.Stdout, p.cmd.Stderr = watchEnd{p.out, 0}, watchEnd{p.out, 1}
	ts.Check(p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait(); close(p.ended) }()
	serving.Store(ts.Name(), p)
	ts.Defer(func() {
		if serving.CompareAndDelete(ts.Name(), p) {
			p.end(syscall.SIGTERM)
		}
		if !p.cmd.ProcessState.Success() {
			ts.Logf("the server ended with %s:\n%s", p.cmd.ProcessState, p.out.one[1].String())
		}
	})
	if !p.out.wait("serving at ", p.ended) {
		ts.Fatalf("the server ended:\n%s", p.out.all.String())
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	at := servingAt.FindStringSubmatch(p.out.one[1].String())
	if at == nil {
		ts.Fatalf("the server does not say where it is:\n%s", p.out.all.String())
	}
	ts.Setenv("SERVER", at[1])
	ts.Setenv(serve.EnvListen, strings.TrimPrefix(at[1], "http://"))
}

// scriptEnv returns the environment of a command that runs in the background of a script.
func scriptEnv(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{"HOME", hosting.EnvCacheDir, serve.EnvListen, remote.EnvKey, remote.EnvServer, serve.EnvSecrets, "OPENAI_API_KEY", "OPENAI_BASE_URL"} {
		if value := ts.Getenv(name); value != "" || name != remote.EnvKey { // an empty key is an error
			env = append(env, name+"="+value)
		}
	}
	return env
}

// endServer sends signals to the server and checks how the process ended. It sends each further
// signal once the server announces that another signal exits immediately. The output is in the
// files out and err.
func endServer(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	found, ok := serving.LoadAndDelete(ts.Name())
	if !ok || len(args) < 2 {
		ts.Fatalf("want a server that runs, and: endserver CODE SIGNAL …")
	}
	p := found.(*servingProcess)
	for i, name := range args[1:] {
		if i > 0 && !p.out.wait("another signal exits immediately", p.ended) {
			ts.Fatalf("it ended before the next signal:\n%s", p.out.all.String())
		}
		ts.Check(p.cmd.Process.Signal(signals[name]))
	}
	<-p.ended
	ts.Check(os.WriteFile(ts.MkAbs("out"), p.out.one[0].Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), p.out.one[1].Bytes(), 0o600))
	code := regexp.MustCompile("^" + args[0] + "$")
	if got := p.cmd.ProcessState.String(); !code.MatchString(got) {
		ts.Fatalf("it ended with %q, want %q:\n%s", got, args[0], p.out.all.String())
	}
}

// quickStart writes the commands of docs/platform-quickstart.md to two scripts: one.sh for the first
// terminal, and two.sh for the second. The server listens on a free port.
func quickStart(ts *testscript.TestScript, _ bool, _ []string) {
	text, err := os.ReadFile(ts.Getenv("DOCS") + "/platform-quickstart.md")
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(serve.EnvListen, l.Addr().String())
	commands := shellBlocks(strings.ReplaceAll(string(text), serve.DefaultListen, l.Addr().String()))
	// The last command of the first terminal becomes the process that a signal ends.
	first := strings.Replace(commands[0], "agent-runner serve", "exec agent-runner serve", 1)
	ts.Check(os.WriteFile(ts.MkAbs("one.sh"), []byte(first), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("two.sh"), []byte(strings.Join(commands[1:], "")), 0o600))
}

// shellBlocks returns the contents of the code blocks of a page that are shell commands.
func shellBlocks(page string) (blocks []string) {
	for _, part := range strings.Split(page, "```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// docCommands writes the shell commands of a page of docs to a file.
func docCommands(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.Getenv("DOCS") + "/" + args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(shellBlocks(string(text)), "")), 0o600))
}

// setFrom sets a variable to the content of a file, or to the first group of a pattern that
// matches the content.
func setFrom(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if len(args) > 2 {
		found := regexp.MustCompile(args[2]).FindStringSubmatch(text)
		if len(found) != 2 {
			ts.Fatalf("%s has no %s:\n%s", args[1], args[2], text)
		}
		text = found[1]
	}
	ts.Setenv(args[0], text)
}
