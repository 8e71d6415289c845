package host

import (
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// CompileChildMain is the main function of a compile child: it compiles modules and bundles scripts.
// ok is false, and nothing happens, if this process is no compile child. A program that sets
// [Options.CompileChild] must start with
//
//	if code, ok := host.CompileChildMain(); ok {
//		os.Exit(code)
//	}
func CompileChildMain() (code int, ok bool) {
	if !child.IsChild() {
		return 0, false
	}
	return child.Main(javascript.Job()), true
}
