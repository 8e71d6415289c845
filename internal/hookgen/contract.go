package main

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

// hookList generates the constants of package contract, and its functions that list the hooks and
// their types.
func hookList(s *source) string {
	var names, list, types strings.Builder
	for _, h := range s.hooks {
		input := "struct{}"
		if h.Input() != "" {
			input = strings.TrimPrefix(s.typ(h.Input()), "contract.")
		}
		fmt.Fprintf(&names, "Hook%s abi.Hook = %q\n", h.Go, h.Name)
		fmt.Fprintf(&list, "Hook%s,\n", h.Go)
		answer := strings.TrimPrefix(s.typ(h.Answer()), "contract.")
		fmt.Fprintf(&types, "case Hook%s:\nreturn &%s{}, &%s{}\n", h.Go, input, answer)
	}
	return goFile(
		"package contract",
		"// The hooks of version 1, in the order in which a run calls them.\nconst (\n"+names.String()+`)

var hooks = [...]abi.Hook{
`+list.String()+`}

// Hooks returns all hooks of version 1, in the order in which a run calls them.
func Hooks() []abi.Hook { return slices.Clone(hooks[:]) }

// Known reports whether h is a hook of version 1.
func Known(h abi.Hook) bool { return slices.Contains(hooks[:], h) }

// Exchange returns pointers to a new input and a new answer of hook h, or nil if h is
// unknown.
func Exchange(h abi.Hook) (in, answer any) {
	switch h {
`+types.String()+`	default:
		return nil, nil
	}
}
`,
	)
}

var orders = map[string]string{"inward": "outer → inner", "outward": "inner → outer"}

var faults = map[string]string{
	"":                "`on_fault`",
	"denied":          "the call is denied",
	"error_result":    "the call has an error result",
	"default_message": "the default, and an event",
	"passed_over":     "an event; the others still run",
	"not_translated":  "the event unchanged, and an event",
}

// hookTable generates the table of hooks in the README of package abi.
func hookTable(s *source) string {
	var b strings.Builder
	b.WriteString(
		"| hook | called during | order | rings | an answer can | after a fault | since |\n|---|---|---|---|---|---|---:|\n",
	)
	for _, h := range s.hooks {
		var can []string
		for _, a := range []struct {
			ability abitable.Ability
			text    string
		}{{abitable.Stop, "stop"}, {abitable.Interrupt, "interrupt"}, {abitable.Edits, "edit the state"}} {
			if h.Has(a.ability) {
				can = append(can, a.text)
			}
		}
		during := h.During
		if during == "call" {
			during = "model, tool"
		}
		fault := faults[h.Fault]
		if h.During == "load" {
			fault = "the module is rejected"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %d |\n",
			h.Name, during, orders[h.Order], h.Rings, strings.Join(can, ", "), fault, h.Since)
	}
	return b.String()
}

var passes = map[string]string{
	"inner": "further in", "outer": "further out", "operators": "of the operators' rings", "all": "of all rings",
}

// importTable generates the table of imports in the README of package abi.
func importTable(s *source) string {
	var b strings.Builder
	b.WriteString("| import | type | grant | passes hooks | permission | since |\n|---|---|---|---|---|---:|\n")
	for _, i := range s.imports {
		grant := ""
		if i.Grant != "" {
			grant = "`" + i.Grant + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %d |\n", i.Name, signature(&i), grant, passes[i.Ring], i.Does,
			i.Since)
	}
	return b.String()
}

// signature returns the type of an import in the notation of the README: (ptr, len: i32) -> i32.
func signature(i *abitable.Import) string {
	var narrow, wide []string
	for _, p := range i.Parameters() {
		if p.Wide {
			wide = append(wide, p.Name)
		} else {
			narrow = append(narrow, p.Name)
		}
	}
	var groups []string
	if len(narrow) > 0 {
		groups = append(groups, strings.Join(narrow, ", ")+": i32")
	}
	if len(wide) > 0 {
		groups = append(groups, strings.Join(wide, ", ")+": i64")
	}
	text := "(" + strings.Join(groups, ", ") + ")"
	if i.Result != "" {
		text += " -> " + i.Result
	}
	return text
}
