package responses

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answerWriter writes a streamed answer that no upstream of the protocol sent.
type answerWriter struct {
	*stream
	open *newText // the message that was begun, or nil
	text strings.Builder

	extra abi.Fields
}

// NewWriter returns a writer of a streamed answer of the given model.
func (p Protocol) NewWriter(model string) wire.Writer {
	return &answerWriter{stream: p.NewStream(model).(*stream)}
}

// SetID sets the ID of the answer.
func (w *answerWriter) SetID(id string) { w.id = idPrefix + id }

// Extra sets the additional fields of the response in the last event.
func (w *answerWriter) Extra(fields abi.Fields) { w.extra = fields }

// Begin appends the start of the answer.
func (w *answerWriter) Begin(dst []byte) []byte { return w.beginAnswer(dst) }

// Text appends text or a refusal. Reasoning is omitted, see the package's documentation.
func (w *answerWriter) Text(dst []byte, kind, text string) []byte {
	if kind == abi.ChunkReasoning || text == "" {
		return dst
	}
	typ := typeText
	if kind == wire.KindRefusal {
		typ = typeRefusal
	}
	if w.open != nil && w.open.typ != typ {
		dst = w.close(dst)
	}
	if w.open == nil {
		dst, w.open = w.openText(dst, newID("msg_"), typ)
	}
	w.text.WriteString(text)
	return w.appendText(dst, w.open, text)
}

// Call appends a whole call.
func (w *answerWriter) Call(dst []byte, call *abi.ToolCall) []byte {
	return w.AddCall(w.close(dst), call)
}

// close ends the message that was begun.
func (w *answerWriter) close(dst []byte) []byte {
	if w.open == nil {
		return dst
	}
	dst = w.closeText(dst, w.open, w.text.String())
	w.open = nil
	w.text.Reset()
	return dst
}

// End appends the events that end the answer.
func (w *answerWriter) End(dst []byte, finish string, u *abi.Usage) []byte {
	w.usage = u
	return w.endNew(w.close(dst), finish, w.extra)
}

// Error appends the event of an error that ends the stream.
func (w *answerWriter) Error(dst []byte, err *wire.Error) []byte { return w.stream.Error(dst, err) }
