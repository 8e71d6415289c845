package javascript

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSegments is the maximum number of segments in a source map. A segment takes 20 bytes of
// memory.
const maxSegments = 8 << 20

// A Map maps positions of a bundle to positions in the sources. See https://tc39.es/ecma426/.
type Map struct {
	sources  []string
	contents []string
	segments []segment // in ascending order of line and column
}

// A segment is the position in a source of the code from the segment's position in the bundle up to
// the next segment. All numbers start at 0.
type segment struct {
	line, column       int32 // position in the bundle
	source             int32 // index of the source; -1 if the code has no source
	toLine, fromColumn int32
}

// ReadMap reads a bundle's source map. The bundle is untrusted.
func ReadMap(bundle []byte) (*Map, error) {
	at := bytes.LastIndex(bundle, []byte("\n"+mapMark))
	if at < 0 {
		return nil, errors.New("the bundle has no source map")
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(bundle[at+1+len(mapMark):])))
	if err != nil {
		return nil, fmt.Errorf("source map: %w", err)
	}
	var raw struct {
		Version  int       `json:"version"`
		Sources  []string  `json:"sources"`
		Contents []*string `json:"sourcesContent"`
		Mappings string    `json:"mappings"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("source map: %w", err)
	}
	if raw.Version != 3 {
		return nil, fmt.Errorf("source map: version %d; want 3", raw.Version)
	}
	m := &Map{sources: raw.Sources, contents: make([]string, len(raw.Sources))}
	for i, c := range raw.Contents[:min(len(raw.Contents), len(raw.Sources))] {
		if c != nil {
			m.contents[i] = *c
		}
	}
	if err := m.decode(raw.Mappings); err != nil {
		return nil, fmt.Errorf("source map: %w", err)
	}
	return m, nil
}

// decode decodes mappings. Semicolons separate lines, and commas separate segments. A segment is
// one, four or five numbers, relative to the previous segment.
func (m *Map) decode(mappings string) error {
	var now segment
	var fields [5]int32
	for line, text := range strings.Split(mappings, ";") {
		now.line, now.column = int32(line), 0
		for part := range strings.SplitSeq(text, ",") {
			if part == "" {
				continue
			}
			n, err := vlq(part, &fields)
			if err != nil {
				return err
			}
			now.column += fields[0]
			s := segment{line: now.line, column: now.column, source: -1}
			if n >= 4 {
				now.source += fields[1]
				now.toLine += fields[2]
				now.fromColumn += fields[3]
				s = now
				if s.source < 0 || int(s.source) >= len(m.sources) || s.toLine < 0 || s.fromColumn < 0 {
					return errors.New("a segment names a place that is not there")
				}
			}
			if len(m.segments) == maxSegments {
				return fmt.Errorf("more than %d segments", maxSegments)
			}
			m.segments = append(m.segments, s)
		}
	}
	if !slices.IsSortedFunc(m.segments, compareSegments) {
		slices.SortStableFunc(m.segments, compareSegments)
	}
	return nil
}

func compareSegments(a, b segment) int {
	return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// vlq decodes up to five numbers of variable length. A number consists of base64 digits of five
// bits each, the lowest digit first. The sixth bit of a digit says that another digit follows, and
// the lowest bit of a number is its sign.
func vlq(text string, out *[5]int32) (n int, err error) {
	value, shift := uint64(0), 0
	for i := range len(text) {
		digit := strings.IndexByte(base64Digits, text[i])
		switch {
		case digit < 0:
			return 0, fmt.Errorf("%q is no digit of a mapping", text[i])
		case shift > 30, n == len(out):
			return 0, errors.New("a segment is too long")
		}
		value |= uint64(digit&31) << shift
		if shift += 5; digit&32 != 0 {
			continue
		}
		number := int64(value >> 1)
		if value&1 != 0 {
			number = -number
		}
		if number > 1<<30 || number < -(1<<30) {
			return 0, errors.New("a number of a mapping is too large")
		}
		out[n] = int32(number)
		n++
		value, shift = 0, 0
	}
	if shift != 0 || n == 0 || n == 2 || n == 3 {
		return 0, errors.New("a segment is cut short")
	}
	return n, nil
}

// A Position is a position in a source. Line and Column start at 1.
type Position struct {
	Source       string
	Line, Column int
	source       int
}

// String returns file:line:column.
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column) }

// Find returns the position in a source for a line and a column of the bundle. The second result is
// false if there is none. Lines and columns start at 1.
func (m *Map) Find(line, column int) (Position, bool) {
	if m == nil || line < 1 || column < 1 || line > 1<<30 || column > 1<<30 {
		return Position{}, false
	}
	want := segment{line: int32(line - 1), column: int32(column - 1)}
	i, found := slices.BinarySearchFunc(m.segments, want, compareSegments)
	if !found {
		i--
	}
	if i < 0 || m.segments[i].line != want.line || m.segments[i].source < 0 {
		return Position{}, false
	}
	s := m.segments[i]
	return Position{
		Source: m.sources[s.source],
		Line:   int(s.toLine) + 1,
		Column: int(s.fromColumn) + 1,
		source: int(s.source),
	}, true
}

// Frame returns the source lines around a position, with a mark at the position. It returns "" if
// the map does not contain the source.
func (m *Map) Frame(p Position) string {
	if m == nil || p.source >= len(m.contents) || m.contents[p.source] == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(m.contents[p.source], "\n"), "\n")
	if p.Line > len(lines) {
		return ""
	}
	first := max(1, p.Line-frameLines)
	shown := lines[first-1 : min(len(lines), p.Line+frameLines)]
	for i, l := range shown {
		shown[i] = strings.TrimSuffix(l, "\r")
	}
	return frame(shown, first, p.Line, p.Column)
}

// position matches positions of the bundle in the engine's output.
var position = regexp.MustCompile(`<script>:(\d+):(\d+)`)

// preludeFrames matches frames of the prelude in the engine's stack traces. It also matches the
// frame of the engine's own function that the prelude called.
var preludeFrames = regexp.MustCompile(
	`(?m)(?:^[ \t]*at \S+ \(native\)\n)?^[ \t]*at (?:\S+ \(host:\d+:\d+\)|host:\d+:\d+)(?:\n|$)`,
)

// WithoutPrelude removes the frames of the prelude from stack traces in text, because the prelude
// is code of the host.
func WithoutPrelude(text string) string {
	if !strings.Contains(text, "host:") {
		return text
	}
	return strings.TrimSuffix(preludeFrames.ReplaceAllLiteralString(text, ""), "\n")
}

// Translate replaces positions of the bundle in text with positions in the sources. Positions
// without a source stay unchanged.
func (m *Map) Translate(text string) string {
	if m == nil || !strings.Contains(text, "<script>:") {
		return text
	}
	return position.ReplaceAllStringFunc(text, func(s string) string {
		if p, ok := m.find(s); ok {
			return p.String()
		}
		return s
	})
}

// First returns the position in a source of the first frame in stack that has one. The second
// result is false if no frame has one.
func (m *Map) First(stack string) (Position, bool) {
	for _, s := range position.FindAllString(stack, 64) {
		if p, ok := m.find(s); ok {
			return p, true
		}
	}
	return Position{}, false
}

func (m *Map) find(s string) (Position, bool) {
	groups := position.FindStringSubmatch(s)
	line, _ := strconv.Atoi(groups[1]) // out of range becomes 0 or the maximum, which map to no source
	column, _ := strconv.Atoi(groups[2])
	return m.Find(line, column)
}
