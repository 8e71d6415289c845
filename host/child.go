package host

import (
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// CompileChildMain is the main function of a compile child. A program that sets
// [Options.CompileChild] must start with
//
//	if sandbox.IsCompileChild() {
//		os.Exit(host.CompileChildMain())
//	}
//
// It compiles modules and bundles scripts, and returns the exit code.
func CompileChildMain() int { return sandbox.CompileChildMain(javascript.Job()) }
