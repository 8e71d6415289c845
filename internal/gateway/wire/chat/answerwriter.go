package chat

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answerWriter writes a streamed answer that no upstream of the protocol sent.
type answerWriter struct {
	*stream
	extra abi.Fields
}

// NewWriter returns a writer of a streamed answer of the given model.
func (Protocol) NewWriter(model string) wire.Writer {
	return &answerWriter{stream: &stream{model: model, envelope: newEnvelope("chat.completion.chunk", model)}}
}

// SetID sets the ID of the answer.
func (w *answerWriter) SetID(id string) { w.envelope[0].Value = rawjson.Quote(idPrefix + id) }

// Extra sets the additional fields of the last event.
func (w *answerWriter) Extra(fields abi.Fields) { w.extra = fields }

// Begin appends the start of the answer.
func (w *answerWriter) Begin(dst []byte) []byte {
	if w.started {
		return dst
	}
	return w.writeText(dst, "content", "")
}

// Text appends text, reasoning or a refusal.
func (w *answerWriter) Text(dst []byte, kind, text string) []byte {
	name := "content"
	switch kind {
	case abi.ChunkReasoning:
		name = reasoningContent
	case wire.KindRefusal:
		name = wire.KindRefusal
	}
	return w.writeText(dst, name, text)
}

// Call appends a whole call.
func (w *answerWriter) Call(dst []byte, call *abi.ToolCall) []byte { return w.AddCall(dst, call) }

// End appends the events that end the answer. The usage is in an event of its own, as for clients that ask for it,
// and has the additional fields. Without usage, the event before has them.
func (w *answerWriter) End(dst []byte, finish string, u *abi.Usage) []byte {
	finish = finishReason(finish, w.callsWritten, w.addedCall)
	if u == nil {
		w.envelope = append(w.envelope, w.extra...)
		return append(w.writeFinish(dst, finish), newEvent([]byte(doneMark))...)
	}
	dst = w.writeFinish(dst, finish)
	fields := append(w.envelope[:len(w.envelope):len(w.envelope)], field("choices", []byte("[]")),
		field("usage", usageObject(u)))
	dst = append(dst, newEvent(object(append(fields, w.extra...)...))...)
	return append(dst, newEvent([]byte(doneMark))...)
}

// Error appends the event of an error, and the end of the stream.
func (w *answerWriter) Error(dst []byte, err *wire.Error) []byte {
	return append(w.stream.Error(dst, err), newEvent([]byte(doneMark))...)
}

// writeFinish appends the event with the finish reason.
func (s *stream) writeFinish(dst []byte, finish string) []byte {
	if !s.started {
		dst = s.writeDelta(dst, field("content", []byte(`""`)))
	}
	return s.writeChunk(dst, nil, rawjson.Quote(finish))
}
