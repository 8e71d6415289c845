package responses

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An output is an item of an answer.
type output struct {
	raw     []byte
	typ, id string
	call    *call  // nil unless the item is a call that the client runs
	texts   []text // of a message
	parts   int    // of a message, with those that are no text
}

// A text is a part of a message that has text.
type text struct {
	part int // its number in the message's content
	typ  string
	text string
}

// readOutput reads an item of an answer. where names it in errors.
func readOutput(v rawjson.Value, where string) (*output, error) {
	if !v.IsObject() {
		return nil, upstream("%s of the answer is not an object", where)
	}
	f := members(v)
	if err := f.checkUpstream(); err != nil {
		return nil, err
	}
	o := &output{raw: v.Text, typ: f["type"].String(), id: f["id"].String()}
	if name := f.notString("call_id", "name", "namespace", "arguments", "input"); name != "" && isCall(o.typ) {
		return nil, upstream("%s of the answer has a %s that is not a string", where, name)
	}
	if c, ok := readOutputCall(o.typ, v, f); ok {
		if c.id == "" || c.name == "" {
			return nil, upstream("%s of the answer is a tool call without an ID or a name", where)
		}
		o.call = &c
		return o, nil
	}
	if o.typ != "message" {
		return o, nil
	}
	elements := f["content"].Elements()
	if o.parts = len(elements); o.parts > maxBlocks {
		return nil, upstream("%s of the answer has more than %d parts", where, maxBlocks)
	}
	for i, v := range elements {
		part := members(v)
		if err := part.checkUpstream(); err != nil {
			return nil, err
		}
		typ := part["type"].String()
		if name := textField(typ); name != "" {
			if part.notString(name) != "" {
				return nil, upstream("%s of the answer has a %s that is not a string", where, name)
			}
			o.texts = append(o.texts, text{i, typ, part[name].String()})
		}
	}
	return o, nil
}

// noteCustom adds the names of the custom tools that a response repeats to names.
func noteCustom(names map[string]bool, list rawjson.Value) {
	for _, v := range list.Elements() {
		if len(names) < maxTools && v.Get("type").String() == "custom" {
			names[v.Get("name").String()] = true
		}
	}
}

// newCall returns the item of a call that a module added.
func newCall(c *abi.ToolCall, custom map[string]bool) ([]byte, error) {
	if !custom[c.Function.Name] {
		return newFunctionCall(c), nil
	}
	input, err := wire.CustomInput(c.Function.Arguments)
	if err != nil {
		return nil, err
	}
	return newCustomCall(c, input), nil
}

// readUsage returns the usage of a response, if it has one.
func readUsage(response object) *abi.Usage {
	u := response["usage"]
	if !u.IsObject() {
		return nil
	}
	f := members(u)
	return &abi.Usage{PromptTokens: f["input_tokens"].Int(), CompletionTokens: f["output_tokens"].Int(),
		TotalTokens: f["total_tokens"].Int()}
}

// finishReason returns the finish reason of a response that has ended, and "" for one that failed.
func finishReason(response object, calls bool) string {
	switch response["status"].String() {
	case "incomplete":
		if response["incomplete_details"].Get("reason").String() == "content_filter" {
			return abi.FinishFilter
		}
		return abi.FinishLength
	case "failed", "cancelled":
		return ""
	}
	if calls {
		return abi.FinishToolCalls
	}
	return abi.FinishStop
}

// changedStatus adds to change the fields that give a response the finish reason next instead of
// was. Calls do not change these fields.
func changedStatus(change map[string][]byte, was, next string) {
	status, details := outcome(next)
	if before, beforeDetails := outcome(was); was == "" || next == "" || status == before && details == beforeDetails {
		return
	}
	change["status"], change["incomplete_details"] = rawjson.Quote(status), []byte(details)
}

// A textChange is the change of a text in a message: it has another text, or was dropped.
type textChange struct {
	text    string
	changed bool
	dropped bool
}

// withTexts returns a message item with changed texts. textChanges has the changes, by the number of the part.
func withTexts(item []byte, textChanges map[int]textChange) []byte {
	if len(textChanges) == 0 {
		return item
	}
	v := parsed(item)
	edits := rawjson.Edits{Doc: item}
	content := v.Get("content")
	var kept [][]byte
	dropped := false
	for i, part := range content.Elements() {
		next, ok := textChanges[i]
		switch {
		case ok && next.dropped:
			dropped = true
		case ok && next.changed:
			change := changedText(part, next.text)
			edits.Members(part, change)
			kept = append(kept, edit(part.Text, change))
		default:
			kept = append(kept, part.Text)
		}
	}
	if dropped {
		edits = rawjson.Edits{Doc: item}
		edits.Replace(content, rawjson.Array(kept))
	}
	return edits.Apply()
}

// content returns texts as the content of an assistant's message.
func content(texts []string) abi.Content {
	switch len(texts) {
	case 0:
		return abi.Content{}
	case 1:
		return abi.Text(texts[0])
	}
	parts := make([]abi.Part, len(texts))
	for i, s := range texts {
		parts[i] = abi.Part{Type: abi.PartText, Text: s}
	}
	return abi.Parts(parts...)
}
