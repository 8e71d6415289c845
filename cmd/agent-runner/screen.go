package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A screen writes the answer to stdout and everything else to stderr. Both are often the
// same terminal. It is safe for concurrent use.
type screen struct {
	mu       sync.Mutex
	out, err io.Writer
	color    bool // use colors on stderr
	open     bool // the last line of the answer has no newline yet
}

func newScreen(e *env) *screen {
	return &screen{out: e.out, err: e.err, color: e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb" && isTerminal(e.err)}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// answer writes a part of the answer.
func (s *screen) answer(text string) error {
	text = clean(text)
	if text == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(s.out, text)
	return err
}

// endAnswer ends the answer's last line.
func (s *screen) endAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
}

func (s *screen) endLine() {
	if s.open {
		s.open = false
		_, _ = io.WriteString(s.out, "\n")
	}
}

// A style is the ANSI color code of a note.
type style string

const (
	plain style = ""
	faint style = "2"
	red   style = "31"
	amber style = "33"
	cyan  style = "36"
)

// note writes a line to stderr.
func (s *screen) note(look style, format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	if s.color && look != plain {
		text = "\x1b[" + string(look) + "m" + text + "\x1b[0m"
	}
	_, _ = io.WriteString(s.err, text+"\n")
}

// prompt writes a question to stderr without a newline.
func (s *screen) prompt(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	_, _ = io.WriteString(s.err, text)
}
