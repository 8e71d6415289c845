package messages

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answer is a parsed answer.
type answer struct {
	body     []byte
	root     rawjson.Value
	content  container
	reason   rawjson.Value // stop_reason
	response abi.Response
}

// ParseAnswer parses the body of a whole answer.
func (Protocol) ParseAnswer(body []byte) (wire.Answer, error) {
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, problem("", err.Error()).upstream()
	}
	if !root.IsObject() {
		return nil, problem("", "it is not an object").upstream()
	}
	a := &answer{body: body, root: root}
	if err := a.parse(); err != nil {
		return nil, err.upstream()
	}
	return a, nil
}

func (a *answer) parse() *fieldError {
	members := a.root.Members()
	if err := checkNames(members); err != nil {
		return err
	}
	a.content.role = abi.RoleAssistant
	p := &parser{maxBlocks: maxBlocks, maxCalls: maxCalls}
	if err := p.content(&a.content, get(members, "content")); err != nil {
		return err
	}
	if err := a.content.checkCallIDs(); err != nil {
		return err
	}
	a.reason = get(members, "stop_reason")
	if len(a.reason.Text) > maxReason {
		return problem("stop_reason", "is too long")
	}
	parts, calls := a.content.parts()
	a.response.Message = assistant(parts, calls)
	a.response.FinishReason = finishOf(a.reason.String())
	var u usage
	if u.read(get(members, "usage")) {
		a.response.Usage = u.abi()
	}
	return nil
}

// Response returns the answer in the terms of the ABI.
func (a *answer) Response() *abi.Response { return &a.response }

// Encode returns the body for the client.
func (a *answer) Encode(next *abi.Response, denied map[string]string) ([]byte, error) {
	if next.Message.ReasoningContent != "" {
		return nil, moduleError("reasoning was added; in the Messages API only the upstream can sign it")
	}
	d := draft{of: &a.content, role: abi.RoleAssistant}
	upstream, _ := a.content.parts()
	parts := wire.Separated(upstream, next.Message.Content.Parts())
	if err := d.apply(&edit{parts: parts, calls: next.Message.ToolCalls, denied: denied}); err != nil {
		return nil, err
	}
	d.sort()
	if err := d.checkThinking(); err != nil {
		return nil, err
	}
	change := map[string][]byte{}
	if !d.unchanged() {
		change["content"] = d.contentText()
	}
	old := a.reason.String()
	before := len(a.response.Message.ToolCalls)
	if reason := stopReason(old, next.FinishReason, before, len(d.calls)); reason != old {
		change["stop_reason"] = rawjson.Quote(reason)
		if !a.root.Get("stop_sequence").IsNull() {
			change["stop_sequence"] = []byte("null")
		}
	}
	e := &rawjson.Edits{Doc: a.body}
	e.Members(a.root, change)
	return e.Apply(), nil
}

// NewAnswer returns the body of an answer that no upstream of the protocol sent. The answer has the text, the refusal
// and the calls of the message: reasoning without a signature and other parts cannot be sent to a client.
func (Protocol) NewAnswer(res *abi.Response, model string) []byte {
	var blocks [][]byte
	for _, p := range res.Message.Content.Parts() {
		if p.Type == abi.PartText && p.Text != "" {
			blocks = append(blocks, textBlock(p.Text))
		}
	}
	if text := wire.Refusal(&res.Message); text != "" {
		blocks = append(blocks, textBlock(text))
	}
	for i := range res.Message.ToolCalls {
		call := res.Message.ToolCalls[i]
		call.ID = callID(&call)
		blocks = append(blocks, callBlock(&call, object(call.Function.Arguments)))
	}
	var u usage
	if res.Usage != nil {
		u.input, u.output = res.Usage.PromptTokens, res.Usage.CompletionTokens
	}
	reason := stopReason("", cmp.Or(res.FinishReason, abi.FinishStop), 0, len(res.Message.ToolCalls))
	return message(model, rawjson.Array(blocks), rawjson.Quote(reason), &u)
}

// message returns an answer of the gateway. Its ID is new, since clients count usage by ID.
func message(model string, content, reason []byte, u *usage) []byte {
	return slices.Concat([]byte(`{"id":"msg_`+rand.Text()+`","type":"message","role":"assistant","model":`),
		rawjson.Quote(model), []byte(`,"content":`), content, []byte(`,"stop_reason":`), reason,
		[]byte(`,"stop_sequence":null,"usage":`), u.text(), []byte("}"))
}

// callID returns the ID of a call, or a new one if it has none.
func callID(call *abi.ToolCall) string {
	if call.ID != "" {
		return call.ID
	}
	return "toolu_" + rand.Text()
}

// object returns arguments as an object. Text that is not an object becomes the only member of one, so
// that the tool rejects it.
func object(arguments string) []byte {
	if arguments == "" {
		return []byte("{}")
	}
	if v, err := rawjson.Parse([]byte(arguments)); err == nil && v.IsObject() {
		return v.Text
	}
	return slices.Concat([]byte(`{"invalid_arguments":`), rawjson.Quote(arguments), []byte("}"))
}

// assistant returns the message of an answer. Text alone is a string, as in chat.
func assistant(parts []abi.Part, calls []abi.ToolCall) abi.Message {
	m := abi.Message{Role: abi.RoleAssistant, ToolCalls: calls}
	switch {
	case len(parts) == 1 && parts[0].Type == abi.PartText && len(parts[0].Unknown) == 0:
		m.Content = abi.Text(parts[0].Text)
	case len(parts) > 0:
		m.Content = abi.Parts(parts...)
	}
	return m
}

// finishes are the finish reasons for stop reasons. Others keep their text.
var finishes = map[string]string{
	"end_turn":      abi.FinishStop,
	"stop_sequence": abi.FinishStop,
	"tool_use":      abi.FinishToolCalls,
	"max_tokens":    abi.FinishLength,
	"refusal":       abi.FinishFilter,
}

func finishOf(reason string) string { return cmp.Or(finishes[reason], reason) }

// reasonOf returns the stop reason for a finish reason.
func reasonOf(finish string) string {
	switch finish {
	case abi.FinishStop:
		return "end_turn"
	case abi.FinishToolCalls:
		return "tool_use"
	case abi.FinishLength:
		return "max_tokens"
	case abi.FinishFilter:
		return "refusal"
	}
	return finish
}

// stopReason returns the stop reason of an answer. The client receives calls of them, and before of
// these are the upstream's. old is the upstream's reason, finish the finish reason after the
// modules. Clients run the calls of an answer only if its reason is tool_use.
func stopReason(old, finish string, before, calls int) string {
	reason := old
	if finish != "" && finish != finishOf(old) {
		reason = reasonOf(finish)
	}
	switch {
	case calls == 0 && reason == "tool_use" && (before > 0 || old != reason):
		return "end_turn"
	case calls > before && reason == "end_turn":
		return "tool_use"
	}
	return reason
}

// usage counts tokens. input does not include the tokens that were read from a cache (cached) or
// written to a cache (written).
type usage struct {
	input, output, cached, written int64
}

// maxTokens bounds numbers of tokens, so that sums do not overflow.
const maxTokens = 1 << 40

// read reads the fields that are present, and reports whether v is an object.
func (u *usage) read(v rawjson.Value) bool {
	for _, m := range v.Members() {
		if m.Value.IsNull() {
			continue
		}
		n := min(max(m.Value.Int(), 0), maxTokens)
		switch m.Name {
		case "input_tokens":
			u.input = n
		case "output_tokens":
			u.output = n
		case "cache_read_input_tokens":
			u.cached = n
		case "cache_creation_input_tokens":
			u.written = n
		}
	}
	return v.IsObject()
}

func (u *usage) abi() *abi.Usage {
	in := u.input + u.cached + u.written
	return &abi.Usage{PromptTokens: in, CompletionTokens: u.output, TotalTokens: in + u.output}
}

func (u *usage) text() []byte {
	b := strconv.AppendInt([]byte(`{"input_tokens":`), u.input, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), u.output, 10)
	return append(b, '}')
}
