package chat

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answerWriter writes a streamed answer that no upstream of the protocol sent.
type answerWriter struct{ *stream }

// NewWriter returns a writer of a streamed answer.
func (Protocol) NewWriter(model string) wire.Writer {
	return &answerWriter{&stream{model: model}}
}

// Text appends text or reasoning.
func (w *answerWriter) Text(dst []byte, kind, text string) []byte {
	name := "content"
	if kind == abi.ChunkReasoning {
		name = reasoningContent
	}
	return w.writeText(dst, name, text)
}

// Call appends a whole call.
func (w *answerWriter) Call(dst []byte, call *abi.ToolCall) []byte { return w.AddCall(dst, call) }

// End appends the events that end the answer. The usage is in an event of its own, as for clients that ask for it.
func (w *answerWriter) End(dst []byte, finish string, u *abi.Usage) []byte {
	dst = w.writeFinish(dst, finishReason(finish, w.callsWritten, w.addedCall))
	if u != nil {
		fields := append(w.envelope[:len(w.envelope):len(w.envelope)], field("choices", []byte("[]")),
			field("usage", usageObject(u)))
		dst = append(dst, newEvent(object(fields...))...)
	}
	return append(dst, newEvent([]byte(doneMark))...)
}

// writeFinish appends the event with the finish reason.
func (s *stream) writeFinish(dst []byte, finish string) []byte {
	if !s.started {
		dst = s.writeDelta(dst, field("content", []byte(`""`)))
	}
	return s.writeChunk(dst, nil, rawjson.Quote(finish))
}
