package hosting

import "github.com/agent-runner/agent-runner/internal/agentfile"

// Entries returns all module entries of a file, outermost first.
func Entries(f *agentfile.File) []*agentfile.Middleware {
	var out []*agentfile.Middleware
	for _, list := range [][]agentfile.Middleware{f.Rings.Outer, f.Middlewares, f.Rings.Inner} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}
