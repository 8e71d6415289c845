package main

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

var servingAt = regexp.MustCompile(`serving at (http://[^ ,]+)`)

// startServer starts a server with flags, and sets $SERVER to its address, and $KEY
// to the operator's key if it is the first start. It ends with the script, or when
// another one starts.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	if end, ok := serving.LoadAndDelete(ts.Name()); ok {
		end.(func())()
	}
	cmd := exec.Command("agent-runner", append([]string{"serve", "--log", "json"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(cmd.Environ(), "HOME="+ts.Getenv("HOME"), envCacheDir+"="+ts.Getenv(envCacheDir), envListen+"="+ts.Getenv(envListen),
		"OPENAI_API_KEY="+ts.Getenv("OPENAI_API_KEY"), "OPENAI_BASE_URL="+ts.Getenv("OPENAI_BASE_URL"))
	w := &watch{more: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = watchEnd{w, 0}, watchEnd{w, 1}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	serving.Store(ts.Name(), func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	ts.Defer(func() {
		if end, ok := serving.LoadAndDelete(ts.Name()); ok {
			end.(func())()
		}
		if !cmd.ProcessState.Success() {
			ts.Logf("the server:\n%s", w.one[1].String())
		}
	})
	if !w.wait("serving at ", ended) {
		ts.Fatalf("the server ended:\n%s", w.all.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := servingAt.FindStringSubmatch(w.one[1].String())
	if at == nil {
		ts.Fatalf("the server does not say where it is:\n%s", w.all.String())
	}
	ts.Setenv("SERVER", at[1])
	ts.Setenv(envListen, strings.TrimPrefix(at[1], "http://")) // where the next one is
	if key := strings.TrimSpace(w.one[0].String()); key != "" {
		ts.Setenv("KEY", key)
	}
}

// setKey sets $NAME to the key that a file has.
func setKey(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
