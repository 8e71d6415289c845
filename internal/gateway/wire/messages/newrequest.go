package messages

import (
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// defaultMaxTokens limits the tokens of an answer, beyond those for thinking, if the call has no max_tokens. The API
// requires a limit, and rejects one that the model does not have.
const defaultMaxTokens = 8192

// NewRequest returns the body of a new request.
//
// Instructions become the field system, wherever they are among the messages. Results of tools that follow each other
// are one message. Reasoning that the API has not signed is left out, except for thinking if KeepUnsigned is set. Other
// parts that the ABI does not define are blocks of the API. Arguments that are not an object become the only member of
// one.
//
// Parameters have the names of chat completions where there are such, otherwise those of the API.
func (p Protocol) NewRequest(call *wire.Call) ([]byte, error) {
	c := &composer{unsigned: p.KeepUnsigned}
	for i := range call.Messages {
		if err := c.message(&call.Messages[i]); err != nil {
			return nil, err.in("messages[" + strconv.Itoa(i) + "]").invalid()
		}
	}
	fields, err := newParams(call)
	if err != nil {
		return nil, err
	}
	fields["model"], fields["messages"] = rawjson.Quote(call.Model), c.messages()
	if len(c.system) > 0 {
		fields["system"] = contentOf(c.system, c.plain)
	}
	if call.Stream {
		fields["stream"] = []byte("true")
	}
	if len(call.Tools) > 0 {
		list := make([][]byte, len(call.Tools))
		for i := range call.Tools {
			list[i] = newTool(&call.Tools[i])
		}
		fields["tools"] = rawjson.Array(list)
	}
	body := edited(rawjson.Value{Text: []byte("{}")}, func(v rawjson.Value, e *rawjson.Edits) { e.Members(v, fields) })
	if _, err := rawjson.Parse(body); err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "the request cannot be sent: %v", err)
	}
	return body, nil
}

// A composer makes the messages of a new request.
type composer struct {
	unsigned bool     // thinking without a signature is sent
	system   [][]byte // blocks
	plain    bool     // system is a text alone
	turns    []turn
}

// A turn is a message of a new request.
type turn struct {
	role    string
	blocks  [][]byte
	plain   bool // its content is a string
	results bool // its blocks are results of tools
}

func (c *composer) message(m *abi.Message) *fieldError {
	if m.Name != "" && m.Role != abi.RoleTool {
		return problem("name", "the Messages API has no names of participants")
	}
	blocks, err := c.blocks(m)
	if err != nil {
		return err.in("content")
	}
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper:
		c.plain = len(c.system) == 0 && !m.Content.IsParts()
		c.system = append(c.system, blocks...)
		for _, p := range m.Content.Parts() {
			if p.Type != abi.PartText {
				return problem("content", "instructions can only have text")
			}
		}
	case abi.RoleTool:
		if n := len(c.turns); n == 0 || !c.turns[n-1].results {
			c.turns = append(c.turns, turn{role: abi.RoleUser, results: true})
		}
		t := &c.turns[len(c.turns)-1]
		t.blocks = append(t.blocks, newResult(m, blocks))
	case abi.RoleUser:
		c.turns = append(c.turns, turn{role: m.Role, blocks: blocks, plain: !m.Content.IsParts()})
	case abi.RoleAssistant:
		for i := range m.ToolCalls {
			call := &m.ToolCalls[i]
			if call.ID == "" || call.Function.Name == "" {
				return problem("tool_calls["+strconv.Itoa(i)+"]", "a call needs an id and a name")
			}
			blocks = append(blocks, callBlock(call, object(call.Function.Arguments)))
		}
		if len(blocks) > 0 { // the API rejects a message without content
			c.turns = append(c.turns, turn{role: m.Role, blocks: blocks, plain: !m.Content.IsParts() && len(m.ToolCalls) == 0})
		}
	default:
		return problem("role", "must be system, developer, user, assistant or tool")
	}
	return nil
}

func (c *composer) messages() []byte {
	list := make([][]byte, len(c.turns))
	for i, t := range c.turns {
		list[i] = slices.Concat([]byte(`{"role":"`+t.role+`","content":`), contentOf(t.blocks, t.plain), []byte("}"))
	}
	return rawjson.Array(list)
}

// contentOf returns content with the given blocks: the text of the only block if plain is set.
func contentOf(blocks [][]byte, plain bool) []byte {
	if plain && len(blocks) == 1 {
		return rawjson.Value{Text: blocks[0]}.Get("text").Text
	}
	return rawjson.Array(blocks)
}

func newResult(m *abi.Message, blocks [][]byte) []byte {
	b := append([]byte(`{"type":"tool_result","tool_use_id":`), rawjson.Quote(m.ToolCallID)...)
	if !m.Content.IsNull() {
		b = append(append(b, `,"content":`...), contentOf(blocks, !m.Content.IsParts())...)
	}
	return append(b, '}')
}

// blocks returns the blocks of a message's content. It omits empty text, which the API rejects, and the reasoning of
// other APIs.
func (c *composer) blocks(m *abi.Message) ([][]byte, *fieldError) {
	var out [][]byte
	for i, p := range wire.Ordered(m.Content.Parts()) {
		switch {
		case p.Type == abi.PartText && p.Text == "", wire.IsReasoning(&p) && !c.keeps(&p):
			continue
		case wire.Opaque(&p):
			b, err := p.MarshalJSON()
			if err != nil {
				return nil, problem(strconv.Itoa(i), err.Error())
			}
			out = append(out, b)
		default:
			b, err := newBlock(&p)
			if err != nil {
				return nil, problem(strconv.Itoa(i), err.Error())
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// keeps reports whether the upstream can read a part with reasoning.
func (c *composer) keeps(p *abi.Part) bool {
	return wire.IsSigned(p) || c.unsigned && p.Type == typeThinking && wire.IsForeign(p)
}

const (
	fieldMaxTokens = "max_tokens"
	fieldOutput    = "output_config"
)

// reserved are the fields of a request that are not parameters.
var reserved = []string{"model", "messages", "system", "tools", "stream", fieldStop, FieldThread}

// absent are the parameters of chat completions for which the API has no equivalent.
var absent = []string{
	"seed", "n", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "modalities",
	"prediction", "audio", "functions", "function_call", "web_search_options", "verbosity", "store", "stream_options",
}

// newParams returns the fields of a new request for the parameters of a call.
func newParams(call *wire.Call) (map[string][]byte, error) {
	params, err := wire.SortedParams(call.Params, reserved...)
	if err != nil {
		return nil, err
	}
	fields, output := map[string][]byte{}, map[string][]byte{}
	for _, p := range params {
		switch {
		case p.Name == paramStop && p.Value.IsString():
			fields[fieldStop] = rawjson.Array([][]byte{p.Value.Text})
		case p.Name == paramStop:
			fields[fieldStop] = p.Value.Text
		case p.Name == paramMaxNew:
			fields[fieldMaxTokens] = p.Value.Text
		case p.Name == "reasoning_effort" && slices.Contains([]string{"minimal", "none"}, p.Value.String()):
			return nil, problem(p.Name, "the Messages API does not have "+string(p.Value.Text)).invalid()
		case p.Name == "reasoning_effort":
			output["effort"] = p.Value.Text
		case slices.Contains(absent, p.Name):
			if !wire.IsDefault(p.Name, p.Value) {
				return nil, wire.Unsupported(p.Name, "the Messages API")
			}
		case p.Name == "response_format":
			if p.Value.Get("type").String() == "text" {
				continue
			}
			schema := p.Value.Get("json_schema").Get("schema")
			if p.Value.Get("type").String() != "json_schema" || !schema.IsObject() {
				return nil, problem(p.Name, "the Messages API needs the type json_schema with a schema").invalid()
			}
			output["format"] = slices.Concat([]byte(`{"type":"json_schema","schema":`), schema.Text, []byte("}"))
		case p.Name != paramChoice && p.Name != paramParallel:
			fields[p.Name] = p.Value.Text
		}
	}
	if err := completeParams(fields, output, call); err != nil {
		return nil, err
	}
	return fields, nil
}

// completeParams adds to fields those that depend on several parameters. output has members of output_config.
func completeParams(fields, output map[string][]byte, call *wire.Call) error {
	if len(output) > 0 {
		was := rawjson.Value{Text: fields[fieldOutput]}
		if !was.IsObject() {
			was.Text = []byte("{}")
		}
		fields[fieldOutput] = rawjson.SetMembers(was.Text, output)
	}
	if user := fields["user"]; user != nil {
		delete(fields, "user")
		if fields["metadata"] == nil {
			fields["metadata"] = slices.Concat([]byte(`{"user_id":`), user, []byte("}"))
		}
	}
	if fields[fieldMaxTokens] == nil {
		budget := rawjson.Value{Text: fields[typeThinking]}.Get("budget_tokens").Int()
		fields[fieldMaxTokens] = strconv.AppendInt(nil, defaultMaxTokens+min(max(budget, 0), maxTokens), 10)
	}
	choice, err := newChoice(call.Params)
	if err != nil {
		return problem(paramChoice, err.Error()).invalid()
	}
	kind := rawjson.Value{Text: choice}.Get("type").String()
	if len(call.Tools) == 0 && (kind == "auto" || kind == "none") {
		return nil // the API rejects a choice without tools
	}
	if choice != nil {
		fields[paramChoice] = choice
	}
	return nil
}
