package middleware

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Call is a call of a tool. Arguments is a JSON object in a string: it may be
// changed where a hook says so.
type Call struct {
	abi.Call
	// Tool is what the model is told of the tool; empty in CallTool.
	Tool abi.Tool
	// Stream says whether the result is streamed.
	Stream bool

	aside aside
}

// Args decodes the arguments into a pointer, strictly: what does not fit and
// keys that v does not have are errors, of code invalid, with the path.
func (c *Call) Args(v any) error {
	text := c.Arguments
	if text == "" {
		text = "{}"
	}
	unknown, err := abi.DecodeValue([]byte(text), v)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: "arguments of " + c.Name + ": " + err.Error()}
	}
	if len(unknown) > 0 {
		return &abi.Error{Code: abi.CodeInvalid, Message: "arguments of " + c.Name + ": unknown: " + strings.Join(unknown, ", ")}
	}
	return nil
}

// SetArgs sets the arguments to what v encodes as.
func (c *Call) SetArgs(v any) error {
	b, err := abi.MarshalValue(v)
	if err != nil {
		return err
	}
	c.Arguments = string(b)
	return nil
}

func (c *Call) clone() *Call {
	out := *c
	return &out
}

// A ToolStart is a tool call before it is made. Arguments may be changed.
type ToolStart struct {
	*Call

	result *abi.Result
}

// Respond answers in the tool's place: neither wrappers of this ring nor the
// tool are called.
func (s *ToolStart) Respond(result *abi.Result) { s.result = result }

func (m *Module) beforeTool(c *call, in *abi.BeforeToolInput) (abi.Writable, error) {
	start := &ToolStart{Call: &Call{Call: in.Call, Tool: in.Tool, Stream: in.Stream}}
	err := each(m, func(h BeforeToolHook) (bool, error) {
		err := h.BeforeTool(c.ctx, start)
		return start.result == nil, err
	})
	if err != nil {
		return nil, err
	}
	return &abi.BeforeToolAnswer{Arguments: changedString(in.Call.Arguments, start.Arguments), Result: start.result}, nil
}

func changedString(shown, now string) *string {
	if shown == now {
		return nil
	}
	return &now
}

// A NextTool goes on with a tool call: with the arguments as they were
// changed, or as they came if call is nil. It may be called several times.
// Errors are *abi.Error; if the run ends meanwhile it does not return.
type NextTool func(call *Call) (*abi.Result, error)

func (m *Module) wrapToolCall(c *call, in *abi.WrapToolCallInput) (abi.Writable, error) {
	c.ctx.textKind = abi.ChunkToolResult
	o := &onion[Call, abi.Result]{
		call: c, clone: (*Call).clone, copy: cloneResult, same: sameResult,
		aside: func(q *Call) *aside { return &q.aside },
		patch: func(q *Call) (abi.Writable, bool, error) {
			patch := abi.CallPatch{Arguments: changedString(in.Call.Arguments, q.Arguments)}
			return &patch, patch.Arguments == nil, nil
		},
		reply: func(b []byte) (*abi.Result, error) {
			var reply abi.ToolReply
			err := abi.Read(b, &reply)
			return reply.Result, err
		},
		end:    func(e *abi.StreamEnd) *abi.Result { return e.Result },
		chunks: func(r *abi.Result) []abi.Chunk { return r.Chunks(in.Call.ID) },
		said: func(good *abi.Result, said *abi.Assembly) *abi.Result {
			if good == nil {
				good = &abi.Result{}
			}
			out := said.Result(*good)
			return &out
		},
	}
	for _, p := range m.parts {
		h, ok := p.value.(WrapToolCallHook)
		if !ok {
			continue
		}
		o.wrappers = append(o.wrappers, func(req *Call, next func(*Call) (*abi.Result, error)) (*abi.Result, error) {
			return h.WrapToolCall(c.ctx, req, next)
		})
	}
	result, err := o.run(&Call{Call: in.Call, Tool: in.Tool, Stream: in.Stream})
	if err != nil {
		return nil, err
	}
	return &abi.WrapToolCallAnswer{Result: result}, nil
}

// A ToolEnd is a tool call after it was made. Result and Err may be changed,
// one of them being there.
type ToolEnd struct {
	// Call has the arguments as executed. They may be changed for
	// [ToolEnd.Again] only.
	*Call
	// Result is what the tool said, nil if the call failed.
	Result *abi.Result
	// Err is why it failed. Setting it makes the call a failed one; setting a
	// Result in its place makes it good.
	Err *abi.Error
	// Source is "tool", "host", or the entry that answered or denied.
	Source string

	again *string
}

// Again calls the tool once more, with the arguments as they were changed. At
// most three times a call; gates judge again.
func (e *ToolEnd) Again(reason string) { e.again = &reason }

func (m *Module) afterTool(c *call, in *abi.AfterToolInput) (abi.Writable, error) {
	end := &ToolEnd{
		Call: &Call{Call: in.Call, Tool: in.Tool}, Result: cloneResult(in.Result), Err: cloneError(in.Error), Source: in.Source,
	}
	err := each(m, func(h AfterToolHook) (bool, error) {
		err := h.AfterTool(c.ctx, end)
		return end.again == nil, err
	})
	if err != nil {
		return nil, err
	}
	arguments := changedString(in.Call.Arguments, end.Arguments)
	if end.again != nil {
		return &abi.AfterToolAnswer{Again: &abi.ToolAgain{Arguments: arguments, Reason: *end.again}}, nil
	}
	if arguments != nil {
		return nil, misuse("AfterTool changed the arguments of a call that was made: call Again, or change them in BeforeTool")
	}
	out := &abi.AfterToolAnswer{}
	out.Result, out.Error, err = outcome(sameResult, in.Result, end.Result, in.Error, end.Err)
	return out, err
}

// A ToolRecord is how a tool's result is recorded in the run's messages.
type ToolRecord struct {
	*Call
	Result abi.Result
	// Default is the message that would be recorded.
	Default abi.Message
	// Messages, if there are any, are recorded in its place. Exactly one of
	// them must answer the call.
	Messages []abi.Message
}

func (m *Module) toolMessages(c *call, in *abi.ToolMessagesInput) (abi.Writable, error) {
	record := &ToolRecord{Call: &Call{Call: in.Call, Tool: in.Tool}, Result: *cloneResult(&in.Result), Default: cloneMessage(&in.Default)}
	err := each(m, func(h ToolMessagesHook) (bool, error) {
		err := h.ToolMessages(c.ctx, record)
		return len(record.Messages) == 0, err
	})
	return &abi.ToolMessagesAnswer{Messages: record.Messages}, err
}

// A ToolsEnd is a round of tool calls whose results are in the run's state.
type ToolsEnd struct {
	Messages *Messages
	Calls    []abi.Call
}

func (m *Module) afterTools(c *call, in *abi.AfterToolsInput) (abi.Writable, error) {
	round := &ToolsEnd{Messages: c.list(in.Messages), Calls: slices.Clone(in.Calls)}
	err := each(m, func(h AfterToolsHook) (bool, error) { return true, h.AfterTools(c.ctx, round) })
	if err != nil {
		return nil, err
	}
	out := &abi.AfterToolsAnswer{}
	out.Messages, err = round.Messages.patch()
	return out, err
}

// A Translation is an event on its way to a client. Event may be changed;
// setting Drop keeps it from the client. Its type, ids and order are the
// host's, and the end of a run cannot be dropped.
type Translation struct {
	Protocol string
	// Event is an abi.Event before it is put into the protocol, and the
	// protocol's own form after.
	Event json.RawMessage
	Drop  bool
}

func translate(c *call, in *abi.TranslateInput, fn func(t *Translation) error) (abi.Writable, error) {
	t := &Translation{Protocol: in.Protocol, Event: slices.Clone(in.Event)}
	if err := fn(t); err != nil {
		return nil, err
	}
	out := &abi.TranslateAnswer{Drop: t.Drop}
	if !t.Drop && string(t.Event) != string(in.Event) {
		out.Event = t.Event
	}
	return out, nil
}

func (m *Module) translateBefore(c *call, in *abi.TranslateInput) (abi.Writable, error) {
	return translate(c, in, func(t *Translation) error {
		return each(m, func(h TranslateBeforeHook) (bool, error) {
			err := h.TranslateBefore(c.ctx, t)
			return !t.Drop, err
		})
	})
}

func (m *Module) translateAfter(c *call, in *abi.TranslateInput) (abi.Writable, error) {
	return translate(c, in, func(t *Translation) error {
		return each(m, func(h TranslateAfterHook) (bool, error) {
			err := h.TranslateAfter(c.ctx, t)
			return !t.Drop, err
		})
	})
}

func (m *Module) observe(c *call, in *abi.ObserveInput) (abi.Writable, error) {
	err := all(m, func(h ObserveHook) error { return h.Observe(c.ctx, in.Events) })
	return &abi.ObserveAnswer{}, err
}
