package messages

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// readEvent returns the name and the data of a server-sent event. data is nil if the event has none, as
// a comment. readEvent rejects text that clients could divide into events or lines in another way.
func readEvent(event []byte) (name string, data []byte, err *fieldError) {
	event = bytes.ReplaceAll(event, []byte("\r\n"), []byte("\n"))
	if bytes.IndexByte(event, '\r') >= 0 {
		return "", nil, problem("", "an event has a carriage return within a line")
	}
	lines := bytes.Split(bytes.TrimRight(event, "\n"), []byte("\n"))
	for i, line := range lines {
		if len(line) == 0 && (i > 0 || len(lines) > 1) {
			return "", nil, problem("", "an event has an empty line")
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			if name != "" {
				return "", nil, problem("", "an event has two names")
			}
			name = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(slices.Clip(data), value...)
			if data == nil {
				data = []byte{}
			}
		case "", "id", "retry": // "" is a comment
		default: // also a field after white space, which some clients ignore
			return "", nil, problem("", fmt.Sprintf("a line is no field of an event: %.64q", line))
		}
	}
	return name, data, nil
}

// appendEvent appends an event with the given data, which is one line unless the upstream wrote more.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	for _, c := range data {
		if c == '\n' { // white space between tokens
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, "\n\n"...)
}

// An event is the parsed data of a server-sent event.
type event struct {
	kind    string
	doc     rawjson.Value
	members []rawjson.Member
}

// parseEvent parses the data of an event with the given name. Clients select events by name or by type,
// so that both must be the same.
func parseEvent(name string, data []byte) (*event, *fieldError) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, problem("", err.Error())
	}
	e := &event{doc: doc, members: doc.Members()}
	if err := checkNames(e.members); err != nil {
		return nil, err
	}
	e.kind = get(e.members, "type").String()
	if e.kind == "" {
		return nil, problem("type", "must be a string that is not empty")
	}
	if name != "" && name != e.kind {
		return nil, problem("type", "differs from the name of the event")
	}
	return e, nil
}

// index returns the field index, which must be an integer that is written as such.
func (e *event) index() (int, *fieldError) {
	v := get(e.members, "index")
	n, err := strconv.Atoi(string(v.Text[:min(len(v.Text), 8)]))
	if err != nil || n < 0 || strconv.Itoa(n) != string(v.Text) {
		return 0, problem("index", "must be the number of a block")
	}
	return n, nil
}

// withIndex returns the data with another index.
func (e *event) withIndex(n int) []byte {
	return edited(e.doc, func(v rawjson.Value, edits *rawjson.Edits) {
		edits.Members(v, map[string][]byte{"index": strconv.AppendInt(nil, int64(n), 10)})
	})
}
