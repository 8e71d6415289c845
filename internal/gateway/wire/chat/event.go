package chat

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// doneMark is the data of a stream's last event.
const doneMark = "[DONE]"

// An event is a server-sent event.
type event struct {
	text     []byte // as received
	data     []byte // the lines of data, joined
	lines    int    // the number of lines of data
	from, to int    // where the data is in text, if it has one line
}

// readEvent reads an event. Lines that only some readers of event streams accept are an error, since a
// client could find a call there that gates have not seen.
func readEvent(text []byte) (event, error) {
	e := event{text: text}
	for at := 0; at < len(text); {
		end, next := len(text), len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end, next = at+i, at+i+1
		}
		if end > at && text[end-1] == '\r' && next > end {
			end--
		}
		if bytes.IndexByte(text[at:end], '\r') >= 0 {
			return e, upstreamError("the upstream's stream has a carriage return without a line feed")
		}
		if at == end && e.lines > 0 && len(bytes.Trim(text[next:], "\r\n")) > 0 {
			return e, upstreamError("the upstream's stream has two events in one")
		}
		if !e.readLine(at, end) {
			return e, upstreamError("the upstream's stream has the line %.100q, which is no field of an event", text[at:end])
		}
		at = next
	}
	return e, nil
}

// readLine reads a line without its end. It reports whether the line is empty, a comment or a field.
func (e *event) readLine(from, to int) bool {
	line := e.text[from:to]
	name, value, _ := bytes.Cut(line, []byte{':'})
	switch string(name) {
	case "", "event", "id", "retry":
		return true
	case "data":
	default:
		return false
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	switch e.lines++; e.lines {
	case 1:
		e.from, e.to, e.data = to-len(value), to, value[:len(value):len(value)]
	default:
		e.data = append(append(e.data, '\n'), value...)
	}
	return true
}

// with returns the event with other data, which is JSON.
func (e *event) with(data []byte) []byte {
	if e.lines == 1 {
		return bytes.Join([][]byte{e.text[:e.from], data, e.text[e.to:]}, nil)
	}
	line := jsontext.Value(bytes.Clone(data))
	if err := line.Compact(); err != nil {
		return nil
	}
	return newEvent(line)
}

// newEvent returns an event with the given line of data.
func newEvent(data []byte) []byte {
	return bytes.Join([][]byte{[]byte("data: "), data, []byte("\n\n")}, nil)
}

// editChoice returns an event with changed members of its choice.
func editChoice(text []byte, change map[string][]byte) []byte {
	return editEvent(text, func(choice rawjson.Value, e *rawjson.Edits) { e.Members(choice, change) })
}

// editEvent returns an event whose choice is edited. Decode has read the event.
func editEvent(text []byte, edit func(choice rawjson.Value, e *rawjson.Edits)) []byte {
	ev, err := readEvent(text)
	if err != nil {
		return text
	}
	v, err := rawjson.Parse(ev.data)
	if err != nil {
		return text
	}
	choices := v.Get("choices").Elements()
	if len(choices) == 0 {
		return text
	}
	e := rawjson.Edits{Doc: ev.data}
	edit(choices[0], &e)
	if !e.Changed() {
		return text
	}
	return ev.with(e.Apply())
}

// renumber returns an event with one delta of a tool call whose index is n.
func renumber(text []byte, n int) []byte {
	return editEvent(text, func(choice rawjson.Value, e *rawjson.Edits) {
		for _, call := range choice.Get("delta").Get("tool_calls").Elements() {
			e.Members(call, map[string][]byte{"index": number(n)})
		}
	})
}
