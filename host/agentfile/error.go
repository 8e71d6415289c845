package agentfile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Error is something wrong at a place in a file.
type Error struct {
	File         string
	Line, Column int    // from 1
	Source       string // the line
	Err          error  // what is wrong, and what is allowed
}

// Error tells the place, what is wrong, and shows the line.
func (e *Error) Error() string {
	n := fmt.Sprint(e.Line)
	return fmt.Sprintf("%s:%d:%d: %v\n  %s | %s\n  %s | %s^",
		e.File, e.Line, e.Column, e.Err, n, e.Source, strings.Repeat(" ", len(n)), strings.Repeat(" ", e.Column-1))
}

// Unwrap returns what is wrong, without the place.
func (e *Error) Unwrap() error { return e.Err }

// A mark is a place in a file.
type mark struct{ line, column int }

// maxSource is how many characters of a line are shown.
const maxSource = 160

func (f *File) errorAt(m mark, err error) error {
	e := &Error{File: f.path, Line: m.line, Column: m.column, Err: err}
	if m.line >= 1 && m.line <= len(f.lines) {
		e.Source = printable(f.lines[m.line-1])
	}
	e.Column = max(1, min(e.Column, utf8.RuneCountInString(e.Source)+1))
	return e
}

// printable is a line as it can be shown: one column for each character.
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

// ErrorAt says where in the file something is wrong: the place of a key such
// as "middlewares[0].module", or of the nearest one around it. What does not
// stand in the file (it was added later) is told without a place.
func (f *File) ErrorAt(path string, err error) error {
	if f.outer != nil {
		return f.outer.ErrorAt(f.prefix+"."+path, err)
	}
	for path != "" {
		if m, ok := f.marks[path]; ok {
			return f.errorAt(m, err)
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return err
}

// mark is where a key stands, if it does.
func (f *File) mark(path string) (mark, bool) {
	if f.outer != nil {
		return f.outer.mark(f.prefix + "." + path)
	}
	m, ok := f.marks[path]
	return m, ok
}
