package host

import (
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// IsCompileChild reports whether this process is a compile child. A program that sets
// [Options.CompileChild] must start with
//
//	if host.IsCompileChild() {
//		os.Exit(host.CompileChildMain())
//	}
func IsCompileChild() bool { return child.IsChild() }

// CompileChildMain is the main function of a compile child. It compiles modules and bundles
// scripts, and returns the exit code.
func CompileChildMain() int { return child.Main(javascript.Job()) }
