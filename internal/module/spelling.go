package module

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

// Limits on the exports that are checked for misspelled hooks, and on the warnings.
const (
	maxSpelling         = 2000
	maxSpellingWarnings = 8
)

// warnOfSpelling warns of exports that look like misspelled hooks, and of a module from which the
// host calls no hook.
func (m *Module) warnOfSpelling() {
	if len(m.hooks) == 0 {
		m.warn("describe: none of the hooks that the module exports is in its list of hooks, so the host never calls it")
	}
	warned := 0
	for i, e := range m.image.Exports() {
		if i == maxSpelling || warned == maxSpellingWarnings {
			return
		}
		if hook, ok := likelyHook(e, m.transport.HookType()); ok && !m.has(hook) {
			m.warn(fmt.Sprintf("exports %.64q, which is not a hook and is never called; did you mean %s?", e.Name, hook))
			warned++
		}
	}
}

// likelyHook returns the hook whose name the author of an export probably misspelled. Such an
// export has the type of a hook, and almost the name of one. The second result is false if there is
// no such hook.
func likelyHook(e verify.ExportInfo, hook verify.FuncType) (abi.Hook, bool) {
	if e.Kind != "function" || contract.Known(abi.Hook(e.Name)) || !e.Type.Equal(hook) {
		return "", false
	}
	plain := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(e.Name, "_", ""), "-", ""))
	plain = strings.TrimPrefix(plain, "on")
	names := make([]string, 0, len(contract.Hooks()))
	for _, h := range contract.Hooks() {
		if strings.TrimPrefix(strings.ReplaceAll(string(h), "_", ""), "on") == plain {
			return h, true
		}
		names = append(names, string(h))
	}
	if near := suggest.Closest(e.Name, names); len(near) > 0 && len(e.Name) > 6 {
		return abi.Hook(near[0]), true
	}
	return "", false
}
