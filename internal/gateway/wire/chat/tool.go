package chat

import (
	"bytes"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A tool is an element of a request's tools.
type tool struct {
	raw    rawjson.Value
	kind   string // the field that describes the tool, typeFunction or typeCustom
	listed bool   // whether modules see the tool, as abi
	abi    abi.Tool
}

func (r *request) readTools(budget *int) error {
	if r.tools.IsNull() {
		return nil
	}
	if !r.tools.IsArray() {
		return invalid("tools", "tools must be an array")
	}
	list := r.tools.Elements()
	if err := spend(budget, len(list)); err != nil {
		return invalid("tools", "the request has %v", err)
	}
	for i, v := range list {
		if !v.IsObject() {
			param := "tools[" + strconv.Itoa(i) + "]"
			return invalid(param, "%s must be an object", param)
		}
		if name := misspelledTool(v); name != "" {
			param := "tools[" + strconv.Itoa(i) + "]"
			return invalid(param, "%s of %s is spelled in another case", name, param)
		}
		t := readTool(v)
		r.toolList = append(r.toolList, t)
		if t.listed {
			r.call.Tools = append(r.call.Tools, t.abi)
		}
	}
	return nil
}

// misspelledTool returns the first name that misspelled reports in a tool, outside of its schema.
func misspelledTool(v rawjson.Value) string {
	for _, inner := range []rawjson.Value{v, v.Get(typeFunction), v.Get(typeCustom)} {
		if name := misspelledMember(inner); name != "" {
			return name
		}
	}
	return ""
}

// readTool reads a tool. One without a name is run by the upstream, and modules do not see it.
func readTool(v rawjson.Value) tool {
	t := tool{raw: v, kind: typeFunction}
	if v.Get("type").String() == typeCustom {
		t.kind = typeCustom
	}
	for _, m := range v.Get(t.kind).Members() {
		switch m.Name {
		case "name":
			t.abi.Name = m.Value.String()
		case "description":
			t.abi.Description = m.Value.String()
		case "parameters":
			t.abi.Parameters = abi.JSON(m.Value.Text)
		}
	}
	if t.kind == typeCustom {
		t.abi.Parameters = abi.JSON(wire.CustomSchema)
	}
	t.listed = t.abi.Name != ""
	return t
}

// editTools adds to change the tools that next changes. Tools keep their order; new ones follow.
func (r *request) editTools(next *wire.Call, change map[string][]byte) error {
	rest := make(map[string][]*abi.Tool, len(next.Tools)) // by name; a client may repeat one
	for i := range next.Tools {
		t := &next.Tools[i]
		rest[t.Name] = append(rest[t.Name], t)
	}
	changed := false
	var list [][]byte
	for i := range r.toolList {
		t := &r.toolList[i]
		if !t.listed {
			list = append(list, t.raw.Text)
			continue
		}
		same := rest[t.abi.Name]
		if len(same) == 0 {
			changed = true
			continue
		}
		rest[t.abi.Name] = same[1:]
		text, err := t.edit(same[0])
		if err != nil {
			return err
		}
		list, changed = append(list, text), changed || !bytes.Equal(text, t.raw.Text)
	}
	for i := range next.Tools { // those left are new
		t := &next.Tools[i]
		if same := rest[t.Name]; len(same) > 0 && same[0] == t {
			rest[t.Name] = same[1:]
			list, changed = append(list, encodeTool(t)), true
		}
	}
	if !changed {
		return nil
	}
	return setTools(list, next, change)
}

// setTools adds the list of tools to change. The list must agree with the request's tool_choice:
// the API rejects tool_choice and parallel_tool_calls without tools.
func setTools(list [][]byte, next *wire.Call, change map[string][]byte) error {
	if name := chosenTool(next.Params["tool_choice"]); name != "" && !hasTool(next.Tools, name) {
		return moduleError("a module removed the tool %.100q, which tool_choice demands", name)
	}
	if len(list) > 0 {
		change["tools"] = rawjson.Array(list)
		return nil
	}
	change["tools"], change["tool_choice"], change["parallel_tool_calls"] = nil, nil, nil
	return nil
}

// chosenTool returns the name of the tool that a tool_choice demands, or "".
func chosenTool(choice abi.JSON) string {
	v, err := rawjson.Parse(choice)
	if err != nil {
		return ""
	}
	if kind := v.Get("type").String(); kind == typeFunction || kind == typeCustom {
		return v.Get(kind).Get("name").String()
	}
	return ""
}

func hasTool(tools []abi.Tool, name string) bool {
	for i := range tools {
		if tools[i].Name == name {
			return true
		}
	}
	return false
}

// edit returns the text of the tool after modules changed it to next.
func (t *tool) edit(next *abi.Tool) ([]byte, error) {
	change := map[string][]byte{}
	if next.Description != t.abi.Description {
		change["description"] = rawjson.Quote(next.Description)
	}
	if !bytes.Equal(next.Parameters, t.abi.Parameters) {
		if t.kind == typeCustom {
			return nil, moduleError("a module changed the parameters of the custom tool %.100q, which has none", next.Name)
		}
		change["parameters"] = parameters(next)
	}
	if len(change) == 0 {
		return t.raw.Text, nil
	}
	return setMembers(t.raw, map[string][]byte{t.kind: setMembers(t.raw.Get(t.kind), change)}), nil
}

// encodeTool returns the text of a tool that a module added.
func encodeTool(t *abi.Tool) []byte {
	inner := abi.Fields{field("name", rawjson.Quote(t.Name))}
	if t.Description != "" {
		inner = append(inner, field("description", rawjson.Quote(t.Description)))
	}
	inner = append(inner, field("parameters", parameters(t)))
	return object(field("type", rawjson.Quote(typeFunction)), field(typeFunction, object(inner...)))
}

// parameters returns the schema of a tool. Some endpoints require one.
func parameters(t *abi.Tool) []byte {
	if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
		return []byte(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}
