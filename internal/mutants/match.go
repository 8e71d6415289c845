package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// A lexeme is a Go token of a source and its position.
type lexeme struct {
	token      token.Token
	literal    string
	start, end int // byte offsets
}

// lexemes returns the tokens of a source. It omits comments and the semicolons that the scanner
// inserts at line ends, so that matches ignore comments and formatting.
func lexemes(src []byte) []lexeme {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	var out []lexeme
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return out
		case tok == token.SEMICOLON && lit == "\n":
			continue
		}
		text := lit
		if text == "" || tok.IsOperator() {
			text = tok.String()
		}
		start := file.Offset(pos)
		out = append(out, lexeme{tok, text, start, start + len(text)})
	}
}

// A place is a range of bytes of a file.
type place struct {
	file       string
	src        []byte
	start, end int
}

// find returns the only place in a package that consists of the tokens of the text. It ignores test
// files.
func find(dir, text string) (*place, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	want := lexemes([]byte(text))
	var found *place
	matches := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		have := lexemes(src)
		for i := 0; i+len(want) <= len(have); i++ {
			if equal(have[i:i+len(want)], want) {
				matches++
				found = &place{name, src, have[i].start, have[i+len(want)-1].end}
			}
		}
	}
	if matches != 1 {
		return nil, fmt.Errorf(
			"its tokens occur %d times in %s, want once; fit the fault to the source: %s",
			matches,
			dir,
			strings.TrimSpace(text),
		)
	}
	return found, nil
}

// equal reports whether a and b, which have the same length, consist of the same tokens.
func equal(a, b []lexeme) bool {
	for i := range a {
		if a[i].token != b[i].token || a[i].literal != b[i].literal {
			return false
		}
	}
	return true
}

// replaced returns the source of the file with the text in this place.
func (p *place) replaced(text string) []byte {
	return []byte(string(p.src[:p.start]) + strings.TrimSpace(text) + string(p.src[p.end:]))
}
