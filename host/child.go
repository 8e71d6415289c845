package host

import (
	"github.com/agent-runner/agent-runner/host/module/javascript"
	"github.com/agent-runner/agent-runner/host/sandbox"
)

// CompileChildMain is what a program with [Options.CompileChild] begins with, where
// it was started as a child:
//
//	if sandbox.IsCompileChild() {
//		os.Exit(host.CompileChildMain())
//	}
//
// It compiles modules and bundles scripts, and returns the exit code.
func CompileChildMain() int { return sandbox.CompileChildMain(javascript.Job()) }
