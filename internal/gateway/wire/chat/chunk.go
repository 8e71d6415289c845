package chat

import (
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// maxEnvelopeField is the maximum size of a field that is repeated in the events of the gateway.
const maxEnvelopeField = 256

// A chunk is the object of an event.
type chunk struct {
	event    event
	envelope abi.Fields // the fields that all chunks of a stream have
	usage    *abi.Usage

	choice, delta    rawjson.Value
	finish, logprobs rawjson.Value

	role          rawjson.Value
	content       string
	refusal       string
	reasoning     string
	reasoningName string
	text, refused abi.Fields // the fields of the delta with the content and the refusal
	thought       abi.Fields // the fields of the delta with the reasoning
	calls         []rawjson.Value
	rest          abi.Fields // the other fields of the delta that are not null
}

// readChunk reads the object of an event.
func readChunk(ev event) (*chunk, error) {
	v, err := rawjson.Parse(ev.data)
	if err != nil {
		return nil, upstreamError("an event of the upstream is not valid: %v", err)
	}
	if !v.IsObject() {
		return nil, upstreamError("an event of the upstream is no object")
	}
	c := &chunk{event: ev}
	var choices rawjson.Value
	for _, m := range v.Members() {
		switch m.Name {
		case "error":
			if !m.Value.IsNull() {
				return nil, reported(m.Value)
			}
		case "choices":
			choices = m.Value
		case "usage":
			c.usage = readUsage(m.Value)
		case "id", "object", "created", "model", "system_fingerprint", "service_tier":
			if len(m.Value.Text) <= maxEnvelopeField {
				c.envelope = append(c.envelope, field(m.Name, m.Value.Text))
			}
		default:
			if name := misspelled(m.Name); name != "" {
				return nil, caseError(name)
			}
		}
	}
	list := choices.Elements()
	switch {
	case !choices.IsNull() && !choices.IsArray():
		return nil, upstreamError("choices of an event of the upstream is no array")
	case len(list) == 1 && !list[0].IsObject():
		return nil, upstreamError("the choice of an event of the upstream is no object")
	case len(list) > 1:
		return nil, upstreamError("an event of the upstream has %d choices instead of one", len(list))
	case len(list) == 1:
		err = c.readChoice(list[0])
	}
	return c, err
}

// caseError is the error for a field that some clients would read as the one with the given name.
func caseError(name string) error {
	return upstreamError("%s of the upstream's answer is spelled in another case", name)
}

// reported returns the failure that the upstream reports in a stream.
func reported(v rawjson.Value) error {
	text := v.Get("message").String()
	if text == "" {
		text = string(v.Text)
	}
	return upstreamError("the upstream failed: %.500s", text)
}

func (c *chunk) readChoice(v rawjson.Value) error {
	c.choice = v
	for _, m := range v.Members() {
		switch m.Name {
		case "index":
			if !m.Value.IsNull() && string(m.Value.Text) != "0" {
				return upstreamError("an event of the upstream is of choice %.20s instead of 0", m.Value.Text)
			}
		case "delta":
			if !m.Value.IsNull() && !m.Value.IsObject() {
				return upstreamError("the delta of an event of the upstream is no object")
			}
			c.delta = m.Value
		case "finish_reason":
			if !m.Value.IsNull() && !m.Value.IsString() {
				return upstreamError("finish_reason of an event of the upstream is no string")
			}
			c.finish = m.Value
		case "logprobs":
			c.logprobs = m.Value
		case "message", "text":
			if !m.Value.IsNull() {
				return upstreamError("an event of the upstream has %s instead of a delta", m.Name)
			}
		default:
			if name := misspelled(m.Name); name != "" {
				return caseError(name)
			}
		}
	}
	for _, m := range c.delta.Members() {
		if err := c.readDelta(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *chunk) readDelta(m rawjson.Member) error {
	if m.Value.IsNull() {
		return nil
	}
	f := field(m.Name, m.Value.Text)
	switch m.Name {
	case "role":
		c.role = m.Value
	case "content":
		return c.readContent(m.Value)
	case reasoningContent, reasoningShort:
		if !m.Value.IsString() {
			return upstreamError("%s of an event of the upstream is no string", m.Name)
		}
		c.thought = append(c.thought, f)
		if c.reasoning == "" { // some endpoints send both
			c.reasoning, c.reasoningName = m.Value.String(), m.Name
		}
	case wire.KindRefusal:
		if !m.Value.IsString() {
			return upstreamError("%s of an event of the upstream is no string", m.Name)
		}
		c.refusal, c.refused = m.Value.String(), abi.Fields{f}
	case "tool_calls":
		if !m.Value.IsArray() {
			return upstreamError("tool_calls of an event of the upstream is no array")
		}
		if c.calls = m.Value.Elements(); len(c.calls) > maxBlocks {
			return upstreamError("an event of the upstream has more than %d tool calls", maxBlocks)
		}
	case "function_call":
		return upstreamError("the upstream calls a function without tool_calls, which gates cannot judge")
	default:
		if name := misspelled(m.Name); name != "" {
			return caseError(name)
		}
		c.rest = append(c.rest, f)
	}
	return nil
}

// readContent reads the content of a delta. Some endpoints send parts; only those without text pass,
// since modules see the text of streams as chunks of strings.
func (c *chunk) readContent(v rawjson.Value) error {
	f := field("content", v.Text)
	if v.IsString() {
		c.content, c.text = v.String(), abi.Fields{f}
		return nil
	}
	for _, part := range v.Elements() {
		if kind := part.Get("type").String(); kind == "" || kind == abi.PartText {
			return upstreamError("content of an event of the upstream is no string")
		}
	}
	if !v.IsArray() {
		return upstreamError("content of an event of the upstream is no string")
	}
	c.rest = append(c.rest, f)
	return nil
}

// A callDelta is the delta of one tool call in a chunk.
type callDelta struct {
	raw      rawjson.Value
	hasIndex bool
	index    int
	id, name string
	custom   bool
	text     rawjson.Value // the addition to the arguments, or to the input of a custom tool
}

func readCallDelta(v rawjson.Value) (callDelta, error) {
	d := callDelta{raw: v}
	if !v.IsObject() {
		return d, upstreamError("a tool call of the upstream is no object")
	}
	var function, custom rawjson.Value
	for _, m := range v.Members() {
		switch m.Name {
		case "index":
			if d.hasIndex = !m.Value.IsNull(); !d.hasIndex {
				continue
			}
			n, err := strconv.Atoi(string(m.Value.Text))
			if err != nil || n < 0 || n > maxBlocks {
				return d, upstreamError("a tool call of the upstream has the index %.20s", m.Value.Text)
			}
			d.index = n
		case "id":
			if err := readText(m.Name, m.Value, &d.id); err != nil {
				return d, upstreamError("a tool call of the upstream is not valid: %v", err)
			}
		case typeFunction:
			function = m.Value
		case typeCustom:
			custom = m.Value
		default:
			if name := misspelled(m.Name); name != "" {
				return d, caseError(name)
			}
		}
	}
	if d.custom = !custom.IsNull(); d.custom && !function.IsNull() {
		return d, upstreamError("a tool call of the upstream is both of a function and of a custom tool")
	}
	inner, name := function, "arguments"
	if d.custom {
		inner, name = custom, "input"
	}
	for _, m := range inner.Members() {
		switch m.Name {
		case "name":
			if err := readText(m.Name, m.Value, &d.name); err != nil {
				return d, upstreamError("a tool call of the upstream is not valid: %v", err)
			}
		case name:
			d.text = m.Value
		default:
			if name := misspelled(m.Name); name != "" {
				return d, caseError(name)
			}
		}
	}
	if !d.text.IsNull() && !d.text.IsString() {
		return d, upstreamError("%s of a tool call of the upstream is no string", name)
	}
	return d, nil
}

// opening returns the text of the delta without its addition to the arguments.
func (d *callDelta) opening() []byte {
	if !d.text.Exists() {
		return d.raw.Text
	}
	e := rawjson.Edits{Doc: d.raw.Text}
	e.Replace(relative(d.text, d.raw), []byte(`""`))
	return e.Apply()
}

// addition returns the text of a delta that contains only the addition to the arguments.
func (d *callDelta) addition() []byte { return callAddition(d.index, d.custom, d.text.Text) }

// callAddition returns a delta that adds text, a JSON string, to the arguments of the call with the
// given index. custom is set for the call of a custom tool.
func callAddition(index int, custom bool, text []byte) []byte {
	kind, name := typeFunction, "arguments"
	if custom {
		kind, name = typeCustom, "input"
	}
	return object(field("index", number(index)), field(kind, object(field(name, text))))
}

func number(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
