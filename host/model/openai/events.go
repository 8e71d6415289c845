package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// events converts a stream of server-sent events to a form that go-openai reads correctly: one
// event per line. It removes comments, because go-openai fails after a number of them and mixes
// them into error events. It joins multi-line events. It ends an event as soon as its JSON is
// complete, because some endpoints omit the empty line between events.
type events struct {
	r  *bufio.Reader
	at *modelapi.Endpoint

	name string       // name of the current event
	data bytes.Buffer // data of the current event so far
	more bool         // data holds at least one line
	out  bytes.Buffer // lines for go-openai
	err  error        // returned once out is empty
}

func (e *events) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		line, err := e.line()
		if err != nil {
			e.err = err
			if errors.Is(err, io.EOF) {
				e.field(line)
				e.last()
			}
			continue
		}
		if len(line) == 0 {
			e.dispatch()
			continue
		}
		e.field(line)
	}
	return e.out.Read(p)
}

// line reads a line without its newline. It fails if the line and the event's data so far exceed
// the limit of an event.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := e.r.ReadSlice('\n')
		if len(line)+len(piece)+e.data.Len() > e.at.MaxEvent {
			return nil, model.Errorf(abi.CodeModel, "%s answered with an event of more than %d bytes",
				e.at.Shown, e.at.MaxEvent)
		}
		if err == nil && line == nil {
			return bytes.TrimRight(piece, "\r\n"), nil
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// field processes a line of an event. It dispatches the event if the event's first line of data is
// a complete JSON value or the end mark of the stream.
func (e *events) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = string(value)
	case "data":
		if e.more {
			e.data.WriteByte('\n')
		}
		e.data.Write(value)
		// Only the first line of an event is checked, so that the cost of many lines stays linear.
		if !e.more && (json.Valid(value) || isDone(value)) {
			e.dispatch()
			return
		}
		e.more = true
	}
}

func isDone(b []byte) bool { return string(bytes.TrimSpace(b)) == "[DONE]" }

// dispatch writes the current event to out, unless it has no data, and resets the event.
func (e *events) dispatch() {
	if data := bytes.TrimSpace(e.data.Bytes()); len(data) > 0 {
		data = oneLine(data)
		if e.name == "error" {
			if !json.Valid(data) {
				data = rawjson.Quote(string(data))
			}
			data = []byte(fmt.Sprintf(`{"error":%s}`, data))
		}
		writeLine(&e.out, data)
	}
	e.name, e.more = "", false
	e.data.Reset()
}

// last writes the event at the end of the stream, unless it is truncated.
func (e *events) last() {
	if e.name == "error" || json.Valid(e.data.Bytes()) {
		e.dispatch()
	}
}

// oneLine returns b, which may be multi-line JSON, as one line.
func oneLine(b []byte) []byte {
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil {
		return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
	}
	return line.Bytes()
}

// writeLine writes an event for go-openai. go-openai treats lines that begin with {"error": as errors
// and loses some of them. writeLine prevents this with a space after the brace.
func writeLine(out *bytes.Buffer, line []byte) {
	out.WriteString("data: ")
	if rest, ok := bytes.CutPrefix(line, []byte("{")); ok {
		out.WriteString("{ ")
		line = rest
	}
	out.Write(line)
	out.WriteByte('\n')
}
