package module

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// maxSpelling bounds how many exports are looked at, and how many are told of.
const (
	maxSpelling     = 2000
	maxSpellingTold = 8
)

// warnOfSpelling tells of exports that were probably meant to be hooks, and of
// a description by which nothing is ever called.
func (m *Module) warnOfSpelling() {
	if len(m.hooks) == 0 {
		m.warn("describe: none of the hooks that the module exports is in its list of hooks, so nothing of it is ever called")
	}
	told := 0
	for i, e := range m.image.Exports() {
		if i == maxSpelling || told == maxSpellingTold {
			return
		}
		if hook, ok := meant(e, m.transport.HookType()); ok && !m.has(hook) {
			m.warn(fmt.Sprintf("exports %.64q, which is no hook and is never called; did you mean %s?", e.Name, hook))
			told++
		}
	}
}

// meant is the hook that an export was probably meant to be: it has a hook's
// type, and nearly its name.
func meant(e verify.ExportInfo, hook verify.FuncType) (abi.Hook, bool) {
	if e.Kind != "function" || abi.Hook(e.Name).Known() || !e.Type.Equal(hook) {
		return "", false
	}
	plain := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(e.Name, "_", ""), "-", ""))
	plain = strings.TrimPrefix(plain, "on")
	names := make([]string, 0, len(abi.Hooks()))
	for _, h := range abi.Hooks() {
		if strings.TrimPrefix(strings.ReplaceAll(string(h), "_", ""), "on") == plain {
			return h, true
		}
		names = append(names, string(h))
	}
	if near := tool.Closest(e.Name, names); len(near) > 0 && len(e.Name) > 6 {
		return abi.Hook(near[0]), true
	}
	return "", false
}
