package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// serving are the servers of the scripts that run, by script.
var serving sync.Map

// A servingProcess is a server that a script started.
type servingProcess struct {
	cmd   *exec.Cmd
	out   *watch
	ended chan error
}

// end sends a signal, and waits for the end.
func (p *servingProcess) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal)
	<-p.ended
}

var servingAt = regexp.MustCompile(`serving at (http://[^ ,]+)`)

// startServer starts a server with flags, in the place of the one that there was. The
// next one is at the same address.
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
	ts.Setenv(envListen, strings.TrimPrefix(at[1], "http://"))
}

// scriptEnv is the environment of a command that runs beside a script.
func scriptEnv(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{"HOME", envCacheDir, envListen, envKey, envServer, envSecrets, "OPENAI_API_KEY", "OPENAI_BASE_URL"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// endServer ends the server with a signal once a text shows, and checks its exit code.
// What it wrote is in the files out and err.
func endServer(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	found, ok := serving.LoadAndDelete(ts.Name())
	if !ok || len(args) < 2 {
		ts.Fatalf("want a server that runs, and: endserver CODE SIGNAL …")
	}
	p := found.(*servingProcess)
	for i, name := range args[1:] {
		if i > 0 && !p.out.wait("another signal ends it at once", p.ended) {
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

// setFrom sets a variable to what a file says, or to what a pattern finds in it.
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
