package responses

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// tools has the tools of a request and their places.
type tools struct {
	custom map[string]bool       // whether a tool is custom, by name
	was    map[string]*abi.Tool  // by name
	lists  map[int]rawjson.Value // the lists of tools, by the number of their item, or topTools
}

// topTools is the number of the list of tools that is not in the input.
const topTools = -1

func (r *request) readTools() error {
	r.tools = tools{map[string]bool{}, map[string]*abi.Tool{}, map[int]rawjson.Value{}}
	if v := r.top["tools"]; !v.IsNull() {
		if !v.IsArray() {
			return invalid("tools", "tools must be an array")
		}
		r.tools.lists[topTools] = v
	}
	for i, v := range r.items {
		switch v.Get("type").String() {
		case "additional_tools", "tool_search_output":
			if list := v.Get("tools"); list.IsArray() {
				r.tools.lists[i] = list
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(r.tools.lists)) {
		where := "tools"
		if i != topTools {
			where = inputItem(i) + ".tools"
		}
		if err := r.listTools(r.tools.lists[i], "", where); err != nil {
			return err
		}
	}
	return nil
}

// listTools adds the tools of a list to those of the call. A name that is listed again is added once.
func (r *request) listTools(list rawjson.Value, namespace, where string) error {
	for _, v := range list.Elements() {
		f := members(v)
		if err := f.checkInput(where); err != nil {
			return err
		}
		t, ok := readTool(f, namespace)
		switch {
		case ok && t.Name == "":
			return invalid(where, "%s has a tool without a name", where)
		case ok && r.tools.was[t.Name] == nil:
			r.tools.was[t.Name] = &t
			r.tools.custom[t.Name] = f["type"].String() == "custom"
			if r.call.Tools = append(r.call.Tools, t); len(r.call.Tools) > maxTools {
				return invalid(where, "the request has more than %d tools", maxTools)
			}
		case f["type"].String() == "namespace" && namespace == "":
			if err := r.listTools(f["tools"], f["name"].String(), where); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTool returns a tool that the client runs. ok is false for other tools.
func readTool(f object, namespace string) (t abi.Tool, ok bool) {
	t = abi.Tool{Name: f["name"].String(), Description: f["description"].String()}
	if t.Name != "" {
		t.Name = toolName(namespace, t.Name)
	}
	switch f["type"].String() {
	case "function":
		if v := f["parameters"]; !v.IsNull() {
			t.Parameters = v.Text
		}
	case "custom":
		t.Parameters = abi.JSON(wire.CustomSchema)
	default:
		return abi.Tool{}, false
	}
	return t, true
}

// A toolEdit is the change of a request's tools.
type toolEdit struct {
	*request
	next  map[string]*abi.Tool
	added []abi.Tool
	list  map[int][]byte // the lists that changed, by their number
}

// editTools returns the change from the request's tools to next.
func (r *request) editTools(next []abi.Tool) (*toolEdit, error) {
	e := &toolEdit{request: r, next: map[string]*abi.Tool{}, list: map[int][]byte{}}
	changed := len(next) != len(r.call.Tools)
	for i := range next {
		t := &next[i]
		was := r.tools.was[t.Name]
		switch {
		case e.next[t.Name] != nil:
			return nil, broken("a module added the tool %.100q twice", t.Name)
		case was == nil:
			e.added = append(e.added, *t)
		case was.Description != t.Description || !rawjson.Equal(was.Parameters, t.Parameters):
			changed = true
			if r.tools.custom[t.Name] && !rawjson.Equal(was.Parameters, t.Parameters) {
				return nil, broken("a module changed the parameters of the custom tool %.100q", t.Name)
			}
		}
		e.next[t.Name] = t
	}
	if !changed && len(e.added) == 0 {
		return e, nil
	}
	for i, v := range r.tools.lists {
		if text, _ := e.rewrite(v, ""); text != nil {
			e.list[i] = text
		}
	}
	return e, e.add()
}

// rewrite returns the text of a list of tools, or nil if the list has not changed, and the number of
// tools that are left.
func (e *toolEdit) rewrite(list rawjson.Value, namespace string) (text []byte, left int) {
	var out [][]byte
	changed := false
	for _, v := range list.Elements() {
		now := e.rewriteTool(v, namespace)
		changed = changed || now == nil || &now[0] != &v.Text[0]
		if now != nil {
			out = append(out, now)
		}
	}
	if !changed {
		return nil, len(out)
	}
	return rawjson.Array(out), len(out)
}

// rewriteTool returns the text of a tool: its own if it has not changed, nil if it was removed.
func (e *toolEdit) rewriteTool(v rawjson.Value, namespace string) []byte {
	f := members(v)
	if f["type"].String() == "namespace" && namespace == "" && f["tools"].IsArray() {
		switch list, left := e.rewrite(f["tools"], f["name"].String()); {
		case list == nil:
			return v.Text
		case left == 0:
			return nil
		default:
			return edit(v.Text, map[string][]byte{"tools": list})
		}
	}
	t, ok := readTool(f, namespace)
	if !ok {
		return v.Text
	}
	next := e.next[t.Name]
	if next == nil {
		return nil
	}
	change := map[string][]byte{}
	was := e.tools.was[t.Name]
	if next.Description != was.Description {
		change["description"] = rawjson.Quote(next.Description)
	}
	if !rawjson.Equal(next.Parameters, was.Parameters) {
		change["parameters"] = next.Parameters
	}
	if len(change) == 0 {
		return v.Text
	}
	return edit(v.Text, change)
}

// add appends the added tools to the list that is not in the input.
func (e *toolEdit) add() error {
	if len(e.added) == 0 {
		return nil
	}
	list := e.tools.lists[topTools]
	if text := e.list[topTools]; text != nil {
		list = parsed(text)
	}
	var out [][]byte
	for _, v := range list.Elements() {
		out = append(out, v.Text)
	}
	for i := range e.added {
		t := &e.added[i]
		if _, err := rawjson.Parse(parametersOf(t)); err != nil {
			return broken("a module added the tool %.100q with parameters that are not valid: %v", t.Name, err)
		}
		out = append(out, newTool(t))
	}
	e.list[topTools] = rawjson.Array(out)
	return nil
}

// newTool returns a new tool of the list.
func newTool(t *abi.Tool) []byte {
	return newObject(str("type", "function"), str("name", t.Name), str("description", t.Description),
		field{"parameters", parametersOf(t)}, raw("strict", "false"))
}

// parametersOf returns the schema of a tool.
func parametersOf(t *abi.Tool) []byte {
	if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
		return []byte(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}

// apply returns the change of the top level's tools, and the text of the items that have changed tools.
func (e *toolEdit) apply(change map[string][]byte) map[int][]byte {
	items := map[int][]byte{}
	for i, text := range e.list {
		if i == topTools {
			change["tools"] = text
			continue
		}
		items[i] = edit(e.items[i].Text, map[string][]byte{"tools": text})
	}
	return items
}

var _ wire.Request = (*request)(nil)
