// Package usage reads the numbers of tokens that a model API reports, from the bytes of an answer while
// they pass. It holds a few kilobytes however long the answer is, and understands the answers of OpenAI's
// and Anthropic's APIs, streamed or not.
package usage

import (
	"bytes"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// Tokens are the tokens of an answer, by their price.
type Tokens struct {
	Input      int64 // neither read from the prompt cache nor written to it
	CacheRead  int64
	CacheWrite int64
	Output     int64 // with reasoning
}

// Total returns the number of all tokens.
func (t *Tokens) Total() int64 { return t.Input + t.CacheRead + t.CacheWrite + t.Output }

// Add adds other tokens.
func (t *Tokens) Add(o *Tokens) {
	t.Input, t.CacheRead = t.Input+o.Input, t.CacheRead+o.CacheRead
	t.CacheWrite, t.Output = t.CacheWrite+o.CacheWrite, t.Output+o.Output
}

const (
	maxTokens = 1 << 40 // of one kind, whatever the upstream reports
	maxObject = 8 << 10 // bytes of the object with the usage
	maxName   = 16      // bytes of a member's name that matters
)

// A Reader reads the usage of one answer, which is written to it in any pieces.
type Reader struct {
	Tokens Tokens
	Known  bool  // the answer reported its usage
	Bytes  int64 // of the answer
	Events int64 // of a stream

	stream bool
	line   int  // in a stream: bytes of the line's field name that have matched, or -1 if it has no data
	text   scan // of the body, or of the current line
}

// dataField begins the lines of a stream that have data.
const dataField = "data:"

// NewReader returns a reader of a JSON document, or of a stream of server-sent events.
func NewReader(stream bool) *Reader { return &Reader{stream: stream} }

// Write reads a part of the answer. It never fails.
func (r *Reader) Write(b []byte) (int, error) {
	n := len(b)
	r.Bytes += int64(n)
	if !r.stream {
		r.read(b)
		return n, nil
	}
	for len(b) > 0 {
		switch {
		case r.line >= 0 && r.line < len(dataField):
			b = r.field(b)
			continue
		case r.line < 0:
			if i := bytes.IndexByte(b, '\n'); i >= 0 {
				b, r.line = b[i+1:], 0
				continue
			}
			return n, nil
		}
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			r.read(b)
			return n, nil
		}
		r.read(b[:i])
		b, r.line, r.text = b[i+1:], 0, scan{object: r.text.object[:0]}
	}
	return n, nil
}

// field reads one byte of a line's field name.
func (r *Reader) field(b []byte) []byte {
	switch {
	case b[0] == '\n':
		r.line = 0
	case b[0] != dataField[r.line]:
		r.line = -1
	default:
		if r.line++; r.line == len(dataField) {
			r.Events++
		}
	}
	return b[1:]
}

func (r *Reader) read(b []byte) {
	for _, c := range b {
		if r.text.next(c) {
			r.report(r.text.object)
		}
	}
}

// report takes the object with the usage. A later one of a stream counts for the members that it has.
func (r *Reader) report(object []byte) {
	v, err := rawjson.Parse(object)
	if err != nil {
		return
	}
	input, cached := int64(-1), int64(-1)
	for _, m := range v.Members() {
		switch m.Name {
		case "prompt_tokens", "input_tokens":
			input = number(m.Value)
		case "prompt_tokens_details", "input_tokens_details": // a part of the input
			if c := m.Value.Get("cached_tokens"); c.Exists() {
				cached = number(c)
			}
		case "cache_read_input_tokens":
			r.Tokens.CacheRead = number(m.Value)
		case "cache_creation_input_tokens":
			r.Tokens.CacheWrite = number(m.Value)
		case "completion_tokens", "output_tokens":
			r.Tokens.Output = number(m.Value)
		default:
			continue
		}
		r.Known = true
	}
	if input >= 0 {
		r.Tokens.Input = input
		if cached >= 0 {
			r.Tokens.CacheRead = min(cached, input)
			r.Tokens.Input -= r.Tokens.CacheRead
		}
	}
}

func number(v rawjson.Value) int64 { return min(max(v.Int(), 0), maxTokens) }

// A scan finds the object with the usage in a JSON document: the member "usage" of the document, or of
// its member "response" or "message".
type scan struct {
	depth    int
	inString bool
	escaped  bool
	name     [maxName]byte // the last string
	length   int           // of that string
	top      string        // the member of the document within which the scan is
	wanted   bool          // the value that follows is the usage
	capture  int           // the depth of the object with the usage; 0 outside
	object   []byte
}

// next reads a byte, and reports whether object is now complete.
func (s *scan) next(c byte) bool {
	if s.capture > 0 {
		if len(s.object) == maxObject {
			s.capture = 0
		} else {
			s.object = append(s.object, c)
		}
	}
	if s.inString {
		s.inside(c)
		return false
	}
	switch c {
	case '"':
		s.inString, s.length, s.wanted = true, 0, false
	case ':':
		name := s.last()
		if s.depth == 1 {
			s.top = name
		}
		s.wanted = s.capture == 0 && name == "usage" &&
			(s.depth == 1 || s.depth == 2 && (s.top == "response" || s.top == "message"))
	case '{', '[':
		s.depth++
		if s.wanted && c == '{' {
			s.capture, s.object = s.depth, append(s.object[:0], c)
		}
		s.wanted = false
	case '}', ']':
		s.depth--
		if s.capture > s.depth {
			s.capture = 0
			return true
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.wanted = false
	}
	return false
}

// inside reads a byte of a string.
func (s *scan) inside(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
		return
	}
	if s.length < maxName {
		s.name[s.length] = c
	}
	s.length++
}

// last returns the last string, if it is short.
func (s *scan) last() string {
	if s.length > maxName {
		return ""
	}
	return string(s.name[:s.length])
}
