package messages

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// clientTools are the beginnings of the types of tools whose parameters the vendor defines and which the
// client runs. Tools of other types run at the upstream.
var clientTools = []string{"bash_", "computer_", "memory_", "text_editor_"}

// parseTool parses an element of tools. It returns false if the upstream runs the tool.
func parseTool(v rawjson.Value) (abi.Tool, bool, *fieldError) {
	if !v.IsObject() {
		return abi.Tool{}, false, problem("", "must be an object")
	}
	members := v.Members()
	if err := checkNames(members); err != nil {
		return abi.Tool{}, false, err
	}
	kind := get(members, "type").String()
	own := kind == "" || kind == "custom"
	if !own && !slices.ContainsFunc(clientTools, func(p string) bool { return strings.HasPrefix(kind, p) }) {
		return abi.Tool{}, false, nil
	}
	name, err := text(members, "name")
	if err != nil {
		return abi.Tool{}, false, err
	}
	return abi.Tool{
		Name:        name,
		Description: get(members, "description").String(),
		Parameters:  get(members, "input_schema").Text,
	}, true, nil
}

// encodeTools sets tools in change if modules changed them. New tools come last.
func (r *request) encodeTools(change map[string][]byte, next []abi.Tool) error {
	tools := make(map[string]*abi.Tool, len(next))
	for i := range next {
		if next[i].Name == "" || tools[next[i].Name] != nil {
			return moduleError("the name of tool %d is empty or used twice: %.64q", i, next[i].Name)
		}
		tools[next[i].Name] = &next[i]
	}
	var list [][]byte
	changed := false
	for i, v := range r.tools.Elements() {
		k, ok := r.listed[i]
		if !ok {
			list = append(list, v.Text)
			continue
		}
		old := &r.call.Tools[k]
		tool := tools[old.Name]
		delete(tools, old.Name)
		if tool == nil {
			changed = true
			continue
		}
		text := editTool(v, old, tool)
		changed = changed || len(text) != len(v.Text) || string(text) != string(v.Text)
		list = append(list, text)
	}
	for i := range next {
		if tools[next[i].Name] != nil {
			changed = true
			list = append(list, newTool(&next[i]))
		}
	}
	if changed {
		change["tools"] = rawjson.Array(list)
		r.checkChoice(change, next, len(list))
	}
	return nil
}

// checkChoice removes the choice of a tool that modules removed, which the upstream would reject.
// next has the tools that modules left, and n is the length of the new list.
func (r *request) checkChoice(change map[string][]byte, next []abi.Tool, n int) {
	choice := r.root.Get("tool_choice")
	if !choice.Exists() {
		return
	}
	name := choice.Get("name").String()
	gone := slices.ContainsFunc(r.call.Tools, func(t abi.Tool) bool { return t.Name == name }) &&
		!slices.ContainsFunc(next, func(t abi.Tool) bool { return t.Name == name })
	if _, set := change["tool_choice"]; n == 0 || gone && !set {
		change["tool_choice"] = nil
	}
}

// editTool returns the text of a tool with the changes of a module.
func editTool(v rawjson.Value, old, next *abi.Tool) []byte {
	change := map[string][]byte{}
	if next.Description != old.Description {
		change["description"] = rawjson.Quote(next.Description)
	}
	if !rawjson.Equal(old.Parameters, next.Parameters) && len(next.Parameters) > 0 {
		change["input_schema"] = next.Parameters
	}
	return rawjson.SetMembers(v.Text, change)
}

func newTool(t *abi.Tool) []byte {
	b := append([]byte(`{"name":`), rawjson.Quote(t.Name)...)
	if t.Description != "" {
		b = append(append(b, `,"description":`...), rawjson.Quote(t.Description)...)
	}
	schema := []byte(`{"type":"object"}`)
	if len(t.Parameters) > 0 {
		schema = t.Parameters
	}
	return append(append(append(b, `,"input_schema":`...), schema...), '}')
}
