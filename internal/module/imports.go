package module

import (
	"slices"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// A Power is a function that a module imports, with an explanation for users.
type Power struct {
	Module string `json:"module"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Does   string `json:"does"`            // what a module can do with the function
	Grant  string `json:"grant,omitempty"` // the grant that it requires, if any
}

// powers returns the imports as Powers. It omits duplicates, which some toolchains produce.
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

// knownPowers returns the descriptions and grants of the functions that modules may import, by
// module and name.
func knownPowers() map[[2]string]Power {
	out := map[[2]string]Power{}
	for _, i := range imports() {
		out[[2]string{i.Module, i.Name}] = Power{Does: i.Does, Grant: i.Grant}
	}
	return out
}

// wasiDoes returns what a module can do with a WASI function, as the sandbox implements it.
func wasiDoes(name string) string {
	switch name {
	case "fd_write":
		return "print; each line is logged"
	case "clock_time_get", "clock_res_get", "poll_oneoff":
		return "read a clock that does not advance during a hook"
	case "random_get":
		return "get random bytes, derived from the run"
	case "proc_exit":
		return "end its call, which is a fault"
	default:
		return "nothing: no files, arguments, environment or sockets"
	}
}
