package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Screen writes the answer to stdout and everything else to stderr. Both are often the
// same terminal. It is safe for concurrent use.
type Screen struct {
	mu       sync.Mutex
	Out, Err io.Writer
	Color    bool // use colors on stderr
	open     bool // the last line of the answer has no newline yet
}

// NewScreen returns a screen for the environment's streams. It uses colors if stderr is a
// terminal that has them and NO_COLOR is not set.
func NewScreen(e *Env) *Screen {
	return &Screen{
		Out:   e.Out,
		Err:   e.Err,
		Color: e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb" && IsTerminal(e.Err),
	}
}

// IsTerminal reports whether a stream is a file that is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Answer writes a part of the answer to stdout.
func (s *Screen) Answer(text string) error {
	text = Clean(text)
	if text == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(s.Out, text)
	return err
}

// EndAnswer writes a newline if the answer's last line has none yet.
func (s *Screen) EndAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
}

func (s *Screen) endLine() {
	if s.open {
		s.open = false
		_, _ = io.WriteString(s.Out, "\n")
	}
}

// A Style is the ANSI color code of a note.
type Style string

// Styles of notes.
const (
	Plain Style = ""
	Faint Style = "2"
	Red   Style = "31"
	Amber Style = "33"
	Cyan  Style = "36"
)

// Note writes a line to stderr in a style. It first ends the answer's last line if that is open.
func (s *Screen) Note(look Style, format string, args ...any) {
	text := Clean(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	if s.Color && look != Plain {
		text = "\x1b[" + string(look) + "m" + text + "\x1b[0m"
	}
	_, _ = io.WriteString(s.Err, text+"\n")
}

// Prompt writes a question to stderr without a newline. It first ends the answer's last line if
// that is open.
func (s *Screen) Prompt(format string, args ...any) {
	text := Clean(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	_, _ = io.WriteString(s.Err, text)
}
