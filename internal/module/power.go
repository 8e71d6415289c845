package module

import (
	"slices"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// A Power is one function that a module imports: something it can do.
type Power struct {
	Module string `json:"module"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Does   string `json:"does"`            // in words
	Grant  string `json:"grant,omitempty"` // without which it is denied
}

// powers puts imports in words. Toolchains import some functions twice.
func powers(imports []verify.ImportInfo) []Power {
	known := knownPowers()
	out := make([]Power, 0, len(imports))
	for _, imp := range imports {
		if slices.ContainsFunc(out, func(p Power) bool { return p.Module == imp.Module && p.Name == imp.Name }) {
			continue
		}
		p, ok := known[[2]string{imp.Module, imp.Name}]
		if !ok {
			p.Does = wasiDoes(imp.Name)
		}
		p.Module, p.Name, p.Type = imp.Module, imp.Name, imp.Type.String()
		out = append(out, p)
	}
	return out
}

// knownPowers are the functions of the surface, by module and name.
func knownPowers() map[[2]string]Power {
	out := map[[2]string]Power{}
	for _, i := range imports() {
		out[[2]string{i.Module, i.Name}] = Power{Does: i.Does, Grant: i.Grant}
	}
	return out
}

// wasiDoes says what is left of a function of WASI in the sandbox.
func wasiDoes(name string) string {
	switch name {
	case "fd_write":
		return "print; lines become log lines"
	case "clock_time_get", "clock_res_get", "poll_oneoff":
		return "read a clock that stands still during a hook"
	case "random_get":
		return "get random bytes, which the run determines"
	case "proc_exit":
		return "end its call, which is a fault"
	default:
		return "nothing: there are no files, arguments, environment or sockets"
	}
}
