package host

import (
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// CompileChildMain is the main function of a compile child, a process that compiles modules and
// bundles scripts. If this process is not a compile child, CompileChildMain does nothing and
// returns false. A program that sets [Options.CompileChild] must start with
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
