package agentfile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Error is an error at a position in a file.
type Error struct {
	File         string
	Line, Column int    // starting at 1
	Source       string // the source line for display; at most maxSource characters and an ellipsis
	Err          error  // the cause, and what is allowed
}

// Error returns the position, the cause and the source line with a marker.
func (e *Error) Error() string {
	n := fmt.Sprint(e.Line)
	return fmt.Sprintf("%s:%d:%d: %v\n  %s | %s\n  %s | %s^",
		e.File, e.Line, e.Column, e.Err, n, e.Source, strings.Repeat(" ", len(n)), strings.Repeat(" ", e.Column-1))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A mark is a position in a file.
type mark struct{ line, column int }

// maxSource is the maximum number of characters of an Error's source line. A longer line is cut and gets an ellipsis.
const maxSource = 160

func (f *File) errorAt(m mark, err error) error {
	e := &Error{File: f.path, Line: m.line, Column: m.column, Err: err}
	if m.line >= 1 && m.line <= len(f.lines) {
		e.Source = printable(f.lines[m.line-1])
	}
	e.Column = max(1, min(e.Column, utf8.RuneCountInString(e.Source)+1))
	return e
}

// printable returns a source line for display. Each character takes one column. printable cuts a line after maxSource
// characters and then adds an ellipsis.
func printable(line string) string {
	runes := []rune(strings.TrimSuffix(strings.ToValidUTF8(line, "\ufffd"), "\r"))
	if len(runes) > maxSource {
		runes = append(runes[:maxSource], '…')
	}
	for i, c := range runes {
		if !unicode.IsPrint(c) {
			runes[i] = ' '
		}
	}
	return string(runes)
}

// ErrorAt adds to err the position of the key at path, such as "middlewares[0].module", or of the
// nearest enclosing key. It returns err unchanged if the file has none of those keys.
func ErrorAt(f *File, path string, err error) error {
	if f.outer != nil {
		return ErrorAt(f.outer, f.prefix+"."+path, err)
	}
	for path != "" {
		if m, ok := f.marks[path]; ok {
			return f.errorAt(m, err)
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return err
}

// mark returns the position of the key at path. It reports false if the file has no such key.
func (f *File) mark(path string) (mark, bool) {
	if f.outer != nil {
		return f.outer.mark(f.prefix + "." + path)
	}
	m, ok := f.marks[path]
	return m, ok
}
