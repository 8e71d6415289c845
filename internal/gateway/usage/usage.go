// Package usage reads the numbers of tokens that a model API reports, from the bytes of an answer while
// they pass. It holds a few kilobytes however long the answer is, and understands the answers of OpenAI's
// and Anthropic's APIs, streamed or not.
package usage

import (
	"bytes"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// Tokens are the tokens of an answer, by the kinds that have different prices.
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
	Final  bool  // the usage is that of the whole answer, not only of the start of a stream
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
		if r.text.depth > 0 || mayReport(b[:i]) {
			r.read(b[:i])
		}
		b, r.line, r.text = b[i+1:], 0, scan{object: r.text.object[:0]}
	}
	return n, nil
}

// mayReport reports whether a line has a member "usage" that is an object. Most lines have none.
func mayReport(line []byte) bool {
	for {
		_, rest, ok := bytes.Cut(line, []byte(`"usage"`))
		if !ok {
			return false
		}
		if line = bytes.TrimLeft(rest, ": \t"); bytes.HasPrefix(line, []byte("{")) {
			return true
		}
	}
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
	for len(b) > 0 {
		n, found := r.text.read(b)
		if b = b[n:]; found {
			r.report(r.text.object)
			r.Final = r.Final || r.Known && !r.text.start
		}
	}
}

// report sets the tokens from the object with the usage. If a stream has several such objects, the last
// value of each member counts.
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
	within   bool          // the scan is within the member "response" or "message" of the document
	start    bool          // within "message", which the first event of Anthropic's streams has
	wanted   bool          // the value that follows is the usage
	capture  int           // the depth of the object with the usage; 0 outside
	object   []byte
}

// read reads a part of the document, at most to the end of the object with the usage. It returns the bytes
// that it read, and whether object is now complete.
func (s *scan) read(b []byte) (n int, found bool) {
	for n < len(b) && !found {
		from := n
		if s.inString {
			n += s.inside(b[n:])
		} else {
			found = s.outside(b[n])
			n++
		}
		if s.capture == 0 && !found {
			continue
		}
		if len(s.object)+n-from > maxObject {
			s.capture, found = 0, false
		} else {
			s.object = append(s.object, b[from:n]...)
		}
	}
	return n, found
}

// inside reads a part of a string, and returns its length.
func (s *scan) inside(b []byte) int {
	if s.escaped {
		s.escaped = false
		s.length++
		return 1
	}
	end := bytes.IndexByte(b, '"')
	part := b
	if end >= 0 {
		part = b[:end]
	}
	escape := bytes.IndexByte(part, '\\')
	if escape >= 0 {
		part = b[:escape]
	}
	if s.length < maxName {
		copy(s.name[s.length:], part)
	}
	s.length += len(part)
	switch {
	case escape >= 0:
		s.escaped = true
		s.length += maxName // the scan looks for names without escapes
		return escape + 1
	case end >= 0:
		s.inString = false
		return end + 1
	}
	return len(b)
}

// outside reads a byte outside of strings, and reports whether it ends the object with the usage.
func (s *scan) outside(c byte) bool {
	switch c {
	case '"':
		s.inString, s.length, s.wanted = true, 0, false
	case ':':
		switch s.depth {
		case 1:
			s.start = s.named("message")
			s.within = s.start || s.named("response")
			s.wanted = s.named("usage")
		case 2:
			s.wanted = s.within && s.named("usage")
		}
	case '{', '[':
		s.depth++
		if s.wanted && c == '{' {
			s.capture, s.object = s.depth, s.object[:0]
		}
		s.wanted = false
	case '}', ']':
		s.depth--
		if s.capture > 0 && s.capture > s.depth {
			s.capture = 0
			return true
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.wanted = false
	}
	return false
}

// named reports whether the last string is name.
func (s *scan) named(name string) bool {
	return s.length == len(name) && string(s.name[:s.length]) == name
}
