package host

import (
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// CompileChildMain is the main function of a compile child. A program that sets
// [Options.CompileChild] must start with
//
//	if child.IsChild() {
//		os.Exit(host.CompileChildMain())
//	}
//
// It compiles modules and bundles scripts, and returns the exit code.
func CompileChildMain() int { return child.Main(javascript.Job()) }
