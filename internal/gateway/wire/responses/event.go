package responses

import (
	"bytes"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// An event is one event of a stream.
type event struct {
	raw    []byte
	typ    string        // of the data, or the event's name if the data has no type
	data   rawjson.Value // the zero Value if the event has no JSON
	fields object
}

// doneMark is the data of the event with which some upstreams end a stream.
const doneMark = "[DONE]"

// readEvent reads an event. An event without data, such as a comment, has no type. Lines that only some readers of
// event streams accept are an error, since a client could find a call there that gates have not seen.
func readEvent(raw []byte) (*event, error) {
	e := &event{raw: raw}
	var name string
	var data [][]byte
	for line := range bytes.Lines(raw) {
		switch field, value := splitLine(line); field {
		case "event":
			name = string(value)
		case "data":
			data = append(data, value)
		case "", "id", "retry":
		default:
			return nil, upstream("the upstream's stream has the line %.100q, which is no field of an event", line)
		}
	}
	if n := bytes.Count(raw, []byte{'\r'}); n > 0 && n != bytes.Count(raw, []byte("\r\n")) {
		return nil, upstream("the upstream's stream has a carriage return without a line feed")
	}
	if len(data) == 0 {
		return e, nil
	}
	text := bytes.Join(data, []byte{'\n'})
	if string(bytes.TrimSpace(text)) == doneMark {
		e.typ = doneMark
		return e, nil
	}
	v, err := rawjson.Parse(text)
	if err != nil {
		return nil, upstream("an event of the upstream is not understood: %v", err)
	}
	if !v.IsObject() {
		return nil, upstream("an event of the upstream is not an object")
	}
	e.data, e.fields = rawjson.Value{Text: v.Text}, members(rawjson.Value{Text: v.Text})
	if err := e.fields.checkUpstream(); err != nil {
		return nil, err
	}
	switch e.typ = e.fields["type"].String(); {
	case e.typ == "":
		e.typ = name
	case name != "" && name != e.typ && name != "message":
		return nil, upstream("an event of the upstream has the name %.40q and the type %.40q", name, e.typ)
	}
	return e, nil
}

// splitLine returns the name and the value of a line.
func splitLine(line []byte) (name string, value []byte) {
	before, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{':'})
	return string(before), bytes.TrimPrefix(value, []byte{' '})
}

// appendWith appends the event with other data and another type. All other lines stay as they are.
func (e *event) appendWith(dst, data []byte, typ string) []byte {
	written := false
	for line := range bytes.Lines(e.raw) {
		end := line[len(bytes.TrimRight(line, "\r\n")):]
		switch name, _ := splitLine(line); {
		case name == "event" && typ != e.typ:
			dst = append(append(append(dst, "event: "...), typ...), end...)
		case name != "data":
			dst = append(dst, line...)
		case !written:
			dst = append(append(append(dst, "data: "...), oneLine(data)...), end...)
			written = true
		}
	}
	return dst
}

// oneLine returns JSON text on one line. Line ends are only between its tokens.
func oneLine(data []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, data)
}

// appendEvent appends an event that the gateway writes.
func appendEvent(dst []byte, typ string, fields ...field) []byte {
	dst = append(append(append(dst, "event: "...), typ...), "\ndata: "...)
	dst = appendObject(dst, append([]field{str("type", typ)}, fields...)...)
	return append(dst, '\n', '\n')
}
