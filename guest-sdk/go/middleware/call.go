package middleware

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Call is a call of a tool. Arguments is a JSON object in a string. A hook may change
// Arguments only if the hook's documentation says so.
type Call struct {
	abi.Call
	// Tool describes the tool. It is empty in CallTool.
	Tool abi.Tool
	// Stream reports whether the result is streamed.
	Stream bool

	streamArgs streamArgs
}

// Args decodes the arguments into the value that v points to. Empty arguments count as {}. If the
// arguments are not valid JSON, a value does not fit or a key is unknown, Args returns an
// *abi.Error with [abi.CodeInvalid].
func (c *Call) Args(v any) error {
	text := c.Arguments
	if text == "" {
		text = "{}"
	}
	unknown, err := abijson.DecodeValue([]byte(text), v)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: "arguments of " + c.Name + ": " + err.Error()}
	}
	if len(unknown) > 0 {
		return &abi.Error{
			Code:    abi.CodeInvalid,
			Message: "arguments of " + c.Name + ": unknown: " + strings.Join(unknown, ", "),
		}
	}
	return nil
}

// SetArgs sets the arguments to the JSON encoding of v, which must be an object. It returns an error if v cannot be
// encoded.
func (c *Call) SetArgs(v any) error {
	b, err := abijson.MarshalValue(v)
	if err != nil {
		return err
	}
	c.Arguments = string(b)
	return nil
}

// A ToolStart is a tool call before it is made. The hook may change Arguments.
type ToolStart struct {
	*Call

	result *abi.Result
}

// Respond sets the result. The host then calls neither the tool nor the wrappers of this ring.
func (s *ToolStart) Respond(result *abi.Result) { s.result = result }

func (*ToolStart) collect(m *Module, _ abi.Hook) any { return collect[BeforeToolHook](m) }

func (*ToolStart) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.BeforeToolInput, abijson.BeforeToolAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	made := &struct {
		ToolStart
		call Call
	}{call: Call{Call: v.in.Call, Tool: v.in.Tool, Stream: v.in.Stream}}
	start := &made.ToolStart
	start.Call = &made.call
	for _, h := range hooks[BeforeToolHook](s) {
		if err := h.BeforeTool(v.ctx, start); err != nil {
			return nil, err
		}
		if start.result != nil {
			break
		}
	}
	v.out.Arguments, v.out.Result = changedString(v.in.Call.Arguments, start.Arguments), start.result
	return &v.out, nil
}

func changedString(shown, now string) *string {
	if shown == now {
		return nil
	}
	changed := now // a copy, because its address escapes: only a changed value is allocated
	return &changed
}

// A NextTool continues a tool call with the arguments in call, or unchanged if call is
// nil. It may be called several times. Its errors are of type *abi.Error. It does not
// return if the run ends meanwhile.
type NextTool func(call *Call) (*abi.Result, error)

func (NextTool) collect(m *Module, _ abi.Hook) any { return collect[WrapToolCallHook](m) }

func (NextTool) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.WrapToolCallInput, abijson.WrapToolCallAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	v.ctx.textKind = abi.ChunkToolResult
	o := &struct {
		onion[Call, abi.Result]
		call Call
	}{call: Call{Call: v.in.Call, Tool: v.in.Tool, Stream: v.in.Stream}}
	o.onion = onion[Call, abi.Result]{
		wrapping: &toolCalls,
		call:     &v.call,
		request:  &o.call,
		hooks:    s.called,
		count:    len(hooks[WrapToolCallHook](s)),
	}
	result, err := o.run()
	v.out.Result = result
	return &v.out, err
}

var toolCalls = wrapping[Call, abi.Result]{
	wrap: func(hooks any, i int, ctx *Context, req *Call, next func(*Call) (*abi.Result, error)) (*abi.Result, error) {
		return hooks.([]WrapToolCallHook)[i].WrapToolCall(ctx, req, next)
	},
	clone:      func(to, from *Call) { *to = *from },
	copy:       func(to, from *abi.Result) { *to = clone.CopyResult(from) },
	same:       clone.SameResult,
	streamArgs: func(q *Call) *streamArgs { return &q.streamArgs },
	patch: func(original, q *Call) (abijson.Writable, bool, error) {
		if original.Arguments == q.Arguments {
			return nil, true, nil
		}
		return &abijson.CallPatch{Arguments: &q.Arguments}, false, nil
	},
	reply: func(b []byte) (*abi.Result, error) {
		var reply contract.ToolReply
		err := abijson.Read(b, (*abijson.ToolReply)(&reply))
		return reply.Result, err
	},
	end:    func(e *contract.StreamEnd) *abi.Result { return e.Result },
	chunks: func(original *Call, r *abi.Result) []abi.Chunk { return chunkjoin.OfResult(r, original.ID) },
	assemble: func(good *abi.Result, assembly *chunkjoin.Assembly) *abi.Result {
		if good == nil {
			good = &abi.Result{}
		}
		out := assembly.Result(*good)
		return &out
	},
}

// A ToolEnd is a tool call after it was made. Either Result or Err is set; the hook may
// change both.
type ToolEnd struct {
	// Call has the arguments with which the tool was called. Changing them only affects
	// [ToolEnd.Again].
	*Call
	// Result is the tool's result, or nil if the call failed.
	Result *abi.Result
	// Err is the reason why the call failed. Setting it makes the call fail. Setting
	// Result instead makes it succeed.
	Err *abi.Error
	// Source is "tool", "host", or the entry that answered or denied the call.
	Source string

	again *string
}

// Again makes the host repeat the call with the arguments of Call after the hook returns, at most
// three times per call. The gates decide again.
func (e *ToolEnd) Again(reason string) { e.again = &reason }

func (*ToolEnd) collect(m *Module, _ abi.Hook) any { return collect[AfterToolHook](m) }

func (*ToolEnd) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.AfterToolInput, abijson.AfterToolAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in, out := &v.in, &v.out
	made := &struct {
		ToolEnd
		call   Call
		result abi.Result
	}{}
	end := &made.ToolEnd
	made.call.Call, made.call.Tool = in.Call, in.Tool
	end.Call, end.Err, end.Source = &made.call, cloneError(in.Error), in.Source
	if in.Result != nil {
		made.result = clone.CopyResult(in.Result)
		end.Result = &made.result
	}
	for _, h := range hooks[AfterToolHook](s) {
		if err := h.AfterTool(v.ctx, end); err != nil {
			return nil, err
		}
		if end.again != nil {
			break
		}
	}
	arguments := changedString(in.Call.Arguments, end.Arguments)
	if end.again != nil {
		out.Again = &abi.ToolAgain{Arguments: arguments, Reason: *end.again}
		return out, nil
	}
	if arguments != nil {
		return nil, misuse(
			"AfterTool changed the arguments of a call that was made: call Again, or change them in BeforeTool",
		)
	}
	var err error
	out.Result, out.Error, err = outcome(clone.SameResult, in.Result, end.Result, in.Error, end.Err)
	return out, err
}

// A ToolRecord is a tool's result that is about to be recorded in the run's messages.
type ToolRecord struct {
	*Call
	Result abi.Result
	// Default is the message that is recorded by default.
	Default abi.Message
	// Messages replaces Default unless it is empty. Exactly one of the messages must
	// answer the call.
	Messages []abi.Message
}

func (*ToolRecord) collect(m *Module, _ abi.Hook) any { return collect[ToolMessagesHook](m) }

func (*ToolRecord) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.ToolMessagesInput, abijson.ToolMessagesAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in := &v.in
	record := &ToolRecord{
		Call:    &Call{Call: in.Call, Tool: in.Tool},
		Result:  *clone.Result(&in.Result),
		Default: clone.Message(&in.Default),
	}
	for _, h := range hooks[ToolMessagesHook](s) {
		if err := h.ToolMessages(v.ctx, record); err != nil {
			return nil, err
		}
		if len(record.Messages) > 0 {
			break
		}
	}
	v.out.Messages = record.Messages
	return &v.out, nil
}

// A ToolsEnd is a round of tool calls whose results are in the run's state.
type ToolsEnd struct {
	Messages *Messages
	Calls    []abi.Call
}

func (*ToolsEnd) collect(m *Module, _ abi.Hook) any { return collect[AfterToolsHook](m) }

func (*ToolsEnd) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.AfterToolsInput, abijson.AfterToolsAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	round := &ToolsEnd{Messages: v.list(v.in.Messages), Calls: slices.Clone(v.in.Calls)}
	for _, h := range hooks[AfterToolsHook](s) {
		if err := h.AfterTools(v.ctx, round); err != nil {
			return nil, err
		}
	}
	v.out.Messages, err = round.Messages.patch()
	return &v.out, err
}

// A Translation is an event that is about to be sent to a client. The hook may change
// Event, or set Drop to suppress it. It cannot change the event's type, IDs and order,
// and it cannot drop the end of a run.
type Translation struct {
	Protocol string
	// Event is the abi.Event in TranslateBefore, and its form in the client's protocol in
	// TranslateAfter.
	Event abi.JSON
	Drop  bool
}

func (*Translation) collect(m *Module, hook abi.Hook) any {
	if hook == contract.HookTranslateBefore {
		return collect[TranslateBeforeHook](m)
	}
	return collect[TranslateAfterHook](m)
}

func (*Translation) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.TranslateInput, abijson.TranslateAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	t := &Translation{Protocol: v.in.Protocol, Event: slices.Clone(v.in.Event)}
	var err error
	for _, h := range hooks[TranslateBeforeHook](s) {
		if err = h.TranslateBefore(v.ctx, t); err != nil || t.Drop {
			break
		}
	}
	for _, h := range hooks[TranslateAfterHook](s) {
		if err = h.TranslateAfter(v.ctx, t); err != nil || t.Drop {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	v.out.Drop = t.Drop
	if !t.Drop && string(t.Event) != string(v.in.Event) {
		v.out.Event = t.Event
	}
	return &v.out, nil
}

// observing implements [server] for the hook observe. For the other hooks, a type in the signature
// of the hook method does. The signature of Observe has no such type.
type observing struct{}

func (observing) collect(m *Module, _ abi.Hook) any { return collect[ObserveHook](m) }

func (observing) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.ObserveInput, abijson.ObserveAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	var failed []error
	for _, h := range hooks[ObserveHook](s) {
		if err := h.Observe(v.ctx, v.in.Events); err != nil {
			failed = append(failed, err)
		}
	}
	return nil, joined(failed)
}
