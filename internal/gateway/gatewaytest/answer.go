package gatewaytest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// An Answer is the answer of an upstream's model to one request.
type Answer struct {
	Reasoning string // signed in Messages, encrypted in Responses; chat has none
	Text      string // streamed word by word
	Calls     []Call
}

// A Call is a call of a client's tool.
type Call struct {
	ID, Name  string
	Arguments string // a JSON object, or the input of a custom tool
	Custom    bool   // calls a custom tool of the Responses API
}

// Body returns the answer as the body of a response that is not streamed.
func (a *Answer) Body(protocol string) string {
	switch protocol {
	case Chat:
		message := fields{"role": "assistant", "content": a.Text}
		if len(a.Calls) > 0 {
			message["tool_calls"] = a.chatCalls()
		}
		return text(fields{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []any{
			fields{"index": 0, "message": message, "finish_reason": a.chatReason()},
		}, "usage": fields{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
	case Responses:
		return text(a.response("completed", a.items()))
	default:
		return text(a.message(a.blocks(), a.stopReason()))
	}
}

// Events returns the answer as the events of a stream, each with the blank line that ends it.
func (a *Answer) Events(protocol string) []string {
	var e events
	switch protocol {
	case Chat:
		a.chatEvents(&e)
	case Responses:
		a.responsesEvents(&e)
	default:
		a.messagesEvents(&e)
	}
	return e.list
}

// fields are the members of a JSON object.
type fields map[string]any

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// words divides a text at its spaces.
func words(s string) []string { return strings.SplitAfter(s, " ") }

// events are the events of a stream.
type events struct {
	list   []string
	number int // of the next event of the Responses API
}

func (e *events) add(name, data string) {
	if name != "" {
		name = "event: " + name + "\n"
	}
	e.list = append(e.list, name+"data: "+data+"\n\n")
}

// typed adds an event whose type is its name.
func (e *events) typed(name string, f fields) {
	f["type"] = name
	e.add(name, text(f))
}

// numbered adds an event of the Responses API.
func (e *events) numbered(name string, f fields) {
	f["sequence_number"] = e.number
	e.number++
	e.typed(name, f)
}

func (a *Answer) chatCalls() []any {
	var out []any
	for i, c := range a.Calls {
		out = append(out, fields{"index": i, "id": c.ID, "type": "function",
			"function": fields{"name": c.Name, "arguments": c.Arguments}})
	}
	return out
}

func (a *Answer) chatReason() string {
	if len(a.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (a *Answer) chatEvents(e *events) {
	chunk := func(delta fields, finish any) {
		e.add("", text(fields{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{
			fields{"index": 0, "delta": delta, "finish_reason": finish},
		}}))
	}
	chunk(fields{"role": "assistant", "content": ""}, nil)
	for _, word := range words(a.Text) {
		chunk(fields{"content": word}, nil)
	}
	for i, c := range a.chatCalls() {
		arguments := a.Calls[i].Arguments
		half := len(arguments) / 2
		c.(fields)["function"].(fields)["arguments"] = arguments[:half]
		chunk(fields{"tool_calls": []any{c}}, nil)
		chunk(fields{"tool_calls": []any{fields{"index": i, "function": fields{"arguments": arguments[half:]}}}}, nil)
	}
	chunk(fields{}, a.chatReason())
	e.add("", "[DONE]")
}

// message returns an answer of the Messages API.
func (a *Answer) message(content []any, reason any) fields {
	return fields{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
		"stop_reason": reason, "stop_sequence": nil, "usage": fields{"input_tokens": 1, "output_tokens": 1}}
}

// Signature is the signature of reasoning in Messages, and the encrypted reasoning in Responses.
const Signature = "c2lnbmF0dXJl"

func (a *Answer) blocks() []any {
	out := []any{}
	if a.Reasoning != "" {
		out = append(out, fields{"type": "thinking", "thinking": a.Reasoning, "signature": Signature})
	}
	if a.Text != "" {
		out = append(out, fields{"type": "text", "text": a.Text})
	}
	for _, c := range a.Calls {
		out = append(out, fields{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	return out
}

func (a *Answer) stopReason() string {
	if len(a.Calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (a *Answer) messagesEvents(e *events) {
	e.typed("message_start", fields{"message": a.message([]any{}, nil)})
	e.typed("ping", fields{})
	for i, block := range a.blocks() {
		b := block.(fields)
		begin := fields{}
		for name, value := range b {
			begin[name] = value
		}
		var deltas []fields
		switch b["type"] {
		case "thinking":
			begin["thinking"], begin["signature"] = "", ""
			deltas = []fields{
				{"type": "thinking_delta", "thinking": b["thinking"]},
				{"type": "signature_delta", "signature": b["signature"]},
			}
		case "text":
			begin["text"] = ""
			for _, word := range words(a.Text) {
				deltas = append(deltas, fields{"type": "text_delta", "text": word})
			}
		default:
			input := string(b["input"].(json.RawMessage))
			half := len(input) / 2
			begin["input"] = fields{}
			deltas = []fields{
				{"type": "input_json_delta", "partial_json": input[:half]},
				{"type": "input_json_delta", "partial_json": input[half:]},
			}
		}
		e.typed("content_block_start", fields{"index": i, "content_block": begin})
		for _, d := range deltas {
			e.typed("content_block_delta", fields{"index": i, "delta": d})
		}
		e.typed("content_block_stop", fields{"index": i})
	}
	e.typed("message_delta", fields{"delta": fields{"stop_reason": a.stopReason(), "stop_sequence": nil},
		"usage": fields{"output_tokens": 1}})
	e.typed("message_stop", fields{})
}

// response returns an answer of the Responses API.
func (a *Answer) response(status string, output []any) fields {
	return fields{"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": fields{}, "parallel_tool_calls": true,
		"tools": []any{}, "tool_choice": "auto", "usage": fields{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
			"input_tokens_details": fields{"cached_tokens": 0}, "output_tokens_details": fields{"reasoning_tokens": 0}}}
}

func (a *Answer) items() []any {
	out := []any{}
	if a.Reasoning != "" {
		out = append(out, fields{"id": "rs_1", "type": "reasoning", "encrypted_content": Signature,
			"summary": []any{fields{"type": "summary_text", "text": a.Reasoning}}})
	}
	if a.Text != "" {
		out = append(out, fields{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
			"content": []any{outputText(a.Text)}})
	}
	for i, c := range a.Calls {
		id := fmt.Sprintf("fc_%d", i+1)
		call := fields{"id": id, "type": "function_call", "status": "completed", "call_id": c.ID, "name": c.Name,
			"arguments": c.Arguments}
		if c.Custom {
			call = fields{"id": id, "type": "custom_tool_call", "status": "completed", "call_id": c.ID, "name": c.Name,
				"input": c.Arguments}
		}
		out = append(out, call)
	}
	return out
}

func outputText(s string) fields {
	return fields{"type": "output_text", "text": s, "annotations": []any{}, "logprobs": []any{}}
}

func (a *Answer) responsesEvents(e *events) {
	e.numbered("response.created", fields{"response": a.response("in_progress", []any{})})
	for i, item := range a.items() {
		it := item.(fields)
		begin := fields{}
		for name, value := range it {
			begin[name] = value
		}
		if it["status"] != nil {
			begin["status"] = "in_progress"
		}
		of := func(f fields) fields {
			f["item_id"], f["output_index"] = it["id"], i
			return f
		}
		switch it["type"] {
		case "message":
			begin["content"] = []any{}
		case "function_call":
			begin["arguments"] = ""
		case "custom_tool_call":
			begin["input"] = ""
		}
		e.numbered("response.output_item.added", fields{"output_index": i, "item": begin})
		switch it["type"] {
		case "message":
			at := func(f fields) fields {
				f["content_index"] = 0
				return of(f)
			}
			e.numbered("response.content_part.added", at(fields{"part": outputText("")}))
			for _, word := range words(a.Text) {
				e.numbered("response.output_text.delta", at(fields{"delta": word, "logprobs": []any{}}))
			}
			e.numbered("response.output_text.done", at(fields{"text": a.Text, "logprobs": []any{}}))
			e.numbered("response.content_part.done", at(fields{"part": outputText(a.Text)}))
		case "function_call":
			e.numbered("response.function_call_arguments.delta", of(fields{"delta": it["arguments"]}))
			e.numbered("response.function_call_arguments.done", of(fields{"arguments": it["arguments"]}))
		case "custom_tool_call":
			e.numbered("response.custom_tool_call_input.delta", of(fields{"delta": it["input"]}))
			e.numbered("response.custom_tool_call_input.done", of(fields{"input": it["input"]}))
		}
		e.numbered("response.output_item.done", fields{"output_index": i, "item": it})
	}
	e.numbered("response.completed", fields{"response": a.response("completed", a.items())})
}
