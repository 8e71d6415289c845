package messages

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answerWriter writes a streamed answer that no upstream of the protocol sent.
type answerWriter struct {
	*stream
	open  *streamBlock // the block of text that was begun, or nil
	extra abi.Fields
}

// NewWriter returns a writer of a streamed answer of the given model.
func (Protocol) NewWriter(model string) wire.Writer {
	return &answerWriter{stream: &stream{model: model}}
}

// SetID does nothing, because clients count usage by the ID of a message.
func (w *answerWriter) SetID(string) {}

// Extra sets the additional fields of the event with the stop reason.
func (w *answerWriter) Extra(fields abi.Fields) { w.extra = fields }

// Begin appends the start of the answer.
func (w *answerWriter) Begin(dst []byte) []byte { return w.begin(dst) }

// Text appends text or, as text, a refusal. Reasoning is not written, see AddText.
func (w *answerWriter) Text(dst []byte, kind, text string) []byte {
	if kind == abi.ChunkReasoning || text == "" {
		return dst
	}
	if w.open == nil {
		w.open = newTextBlock()
		dst = w.beginBlock(dst, w.open, emptyText)
	}
	return appendDelta(dst, w.open, w.open.number, text)
}

// Call appends a whole call.
func (w *answerWriter) Call(dst []byte, call *abi.ToolCall) []byte {
	return w.AddCall(w.close(dst), call)
}

// close ends the block of text that was begun.
func (w *answerWriter) close(dst []byte) []byte {
	if w.open == nil {
		return dst
	}
	number := w.open.number
	w.open = nil
	return appendStop(dst, number)
}

// End appends the events that end the answer.
func (w *answerWriter) End(dst []byte, finish string, u *abi.Usage) []byte {
	if u != nil {
		w.usage = usage{input: u.PromptTokens, output: u.CompletionTokens}
	}
	return w.endNew(w.begin(w.close(dst)), finish, w.extra)
}

// Error appends the event of an error that ends the stream.
func (w *answerWriter) Error(dst []byte, err *wire.Error) []byte { return w.stream.Error(dst, err) }
