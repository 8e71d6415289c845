package chat

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answer is a parsed answer. Its values share the memory of the body.
type answer struct {
	body     []byte
	choice   rawjson.Value
	logprobs rawjson.Value
	message  *message
	response abi.Response
}

// ParseAnswer parses the body of a whole answer.
func (Protocol) ParseAnswer(body []byte) (wire.Answer, error) {
	v, err := rawjson.Parse(body)
	if err != nil {
		return nil, upstreamError("the upstream's answer is not valid: %v", err)
	}
	a := &answer{body: body}
	var choices rawjson.Value
	for _, m := range v.Members() {
		switch m.Name {
		case "choices":
			choices = m.Value
		case "usage":
			a.response.Usage = readUsage(m.Value)
		default:
			if name := misspelled(m.Name); name != "" {
				return nil, caseError(name)
			}
		}
	}
	list := choices.Elements()
	if len(list) != 1 || !list[0].IsObject() {
		return nil, upstreamError("the upstream's answer has %d choices instead of one", len(list))
	}
	a.choice = list[0]
	return a, a.readChoice()
}

func (a *answer) readChoice() error {
	var v rawjson.Value
	for _, m := range a.choice.Members() {
		switch m.Name {
		case "message":
			v = m.Value
		case "finish_reason":
			a.response.FinishReason = m.Value.String()
		case "logprobs":
			a.logprobs = m.Value
		default:
			if name := misspelled(m.Name); name != "" {
				return caseError(name)
			}
		}
	}
	budget := maxItems
	m, err := readMessage(v, &budget)
	if err != nil {
		return upstreamError("the message of the upstream's answer is not valid: %v", err)
	}
	if m.abi.Role == "" {
		m.abi.Role = abi.RoleAssistant
	}
	if m.abi.Role != abi.RoleAssistant {
		return upstreamError("the message of the upstream's answer has the role %.100q", m.abi.Role)
	}
	a.message, a.response.Message = m, m.abi
	return checkCalls(m.abi.ToolCalls)
}

// checkCalls checks that gates can judge each call and name it by its ID.
func checkCalls(calls []abi.ToolCall) error {
	if len(calls) > maxBlocks {
		return upstreamError("the upstream's answer has more than %d tool calls", maxBlocks)
	}
	seen := make(map[string]bool, len(calls))
	for i := range calls {
		c := &calls[i]
		if c.ID == "" || c.Function.Name == "" {
			return upstreamError("tool call %d of the upstream's answer has no id or no name", i+1)
		}
		if seen[c.ID] {
			return upstreamError("two tool calls of the upstream's answer have the id %.100q", c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

func readUsage(v rawjson.Value) *abi.Usage {
	if !v.IsObject() {
		return nil
	}
	u := &abi.Usage{}
	for _, m := range v.Members() {
		switch m.Name {
		case "prompt_tokens":
			u.PromptTokens = m.Value.Int()
		case "completion_tokens":
			u.CompletionTokens = m.Value.Int()
		case "total_tokens":
			u.TotalTokens = m.Value.Int()
		}
	}
	return u
}

// Response returns the answer in the terms of the ABI.
func (a *answer) Response() *abi.Response { return &a.response }

// Encode returns the body for the client.
func (a *answer) Encode(next *abi.Response, denied map[string]string) ([]byte, error) {
	m := next.Message
	m.Role = a.message.abi.Role
	if old := a.message.abi.Content; old.IsParts() {
		m.Content = abi.Parts(wire.Separated(old.Parts(), m.Content.Parts())...)
	}
	m.ToolCalls = nil
	var texts []string
	for _, c := range next.Message.ToolCalls {
		if text, ok := denied[c.ID]; ok {
			texts = append(texts, text)
			continue
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}
	if len(texts) > 0 {
		m.Content = appendText(m.Content, strings.Join(texts, "\n\n"))
	}
	text, err := a.message.edit(&m)
	if err != nil {
		return nil, err
	}
	change := map[string][]byte{}
	if !bytes.Equal(text, a.message.raw.Text) {
		change["message"] = text
	}
	if !a.logprobs.IsNull() && m.Content.String() != a.message.abi.Content.String() {
		change["logprobs"] = []byte("null") // they repeat the upstream's text
	}
	added := len(m.ToolCalls) > len(a.message.abi.ToolCalls)
	reason := finishReason(next.FinishReason, len(m.ToolCalls), added)
	if len(change) > 0 || next.FinishReason != a.response.FinishReason {
		change["finish_reason"] = rawjson.Quote(reason)
	}
	e := rawjson.Edits{Doc: a.body}
	e.Members(a.choice, change)
	return e.Apply(), nil
}

// appendText returns content with a paragraph added.
func appendText(c abi.Content, text string) abi.Content {
	switch {
	case c.IsParts():
		parts := c.Parts()
		return abi.Parts(append(parts[:len(parts):len(parts)], abi.Part{Type: abi.PartText, Text: text})...)
	case c.String() == "":
		return abi.Text(text)
	}
	return abi.Text(c.String() + "\n\n" + text)
}

// NewAnswer returns the body of an answer that no upstream of the protocol sent.
func (Protocol) NewAnswer(res *abi.Response, model string) []byte {
	m := res.Message
	message := abi.Fields{
		field("role", rawjson.Quote(abi.RoleAssistant)),
		field("content", []byte("null")),
	}
	if text := m.Content.String(); text != "" || len(m.ToolCalls) == 0 {
		message[1].Value = rawjson.Quote(text)
	}
	if m.ReasoningContent != "" {
		message = append(message, field(reasoningContent, rawjson.Quote(m.ReasoningContent)))
	}
	if text := wire.Refusal(&m); text != "" {
		message = append(message, field(wire.KindRefusal, rawjson.Quote(text)))
	}
	if len(m.ToolCalls) > 0 {
		list := make([][]byte, len(m.ToolCalls))
		for i := range m.ToolCalls {
			list[i] = newCall(&m.ToolCalls[i])
		}
		message = append(message, field("tool_calls", rawjson.Array(list)))
	}
	choice := object(
		field("index", []byte("0")),
		field("message", object(message...)),
		field("logprobs", []byte("null")),
		field("finish_reason", rawjson.Quote(finishReason(res.FinishReason, len(m.ToolCalls), true))),
	)
	fields := append(newEnvelope("chat.completion", model), field("choices", rawjson.Array([][]byte{choice})))
	if u := res.Usage; u != nil {
		fields = append(fields, field("usage", usageObject(u)))
	}
	return object(fields...)
}

func usageObject(u *abi.Usage) []byte {
	return object(
		field("prompt_tokens", strconv.AppendInt(nil, u.PromptTokens, 10)),
		field("completion_tokens", strconv.AppendInt(nil, u.CompletionTokens, 10)),
		field("total_tokens", strconv.AppendInt(nil, u.TotalTokens, 10)),
	)
}

// newCall returns the text of a call that a module made. If it is one of a custom tool without an
// input, its arguments are the input.
func newCall(c *abi.ToolCall) []byte {
	text, err := encodeCall(c)
	if err != nil {
		call := *c
		call.Function.Arguments = wire.CustomArguments(c.Function.Arguments)
		text, _ = encodeCall(&call)
	}
	return text
}

// idPrefix begins the IDs of answers.
const idPrefix = "chatcmpl-"

// newEnvelope returns the fields before choices of an object that the gateway writes: a new ID, the
// kind of the object, the time and the model.
func newEnvelope(kind, model string) abi.Fields {
	return abi.Fields{
		field("id", rawjson.Quote(idPrefix+rand.Text())),
		field("object", rawjson.Quote(kind)),
		field("created", strconv.AppendInt(nil, time.Now().Unix(), 10)),
		field("model", rawjson.Quote(model)),
	}
}
