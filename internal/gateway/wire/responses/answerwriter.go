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
}

// NewWriter returns a writer of a streamed answer.
func (p Protocol) NewWriter(model string) wire.Writer {
	return &answerWriter{stream: p.NewStream(model).(*stream)}
}

// Text appends text. Reasoning is omitted, see the package's documentation.
func (w *answerWriter) Text(dst []byte, kind, text string) []byte {
	if kind != abi.ChunkText || text == "" {
		return dst
	}
	if w.open == nil {
		dst, w.open = w.openText(dst)
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
	return w.endNew(w.close(dst), finish)
}

// Error appends the event of an error that ends the stream.
func (w *answerWriter) Error(dst []byte, err *wire.Error) []byte { return w.stream.Error(dst, err) }
