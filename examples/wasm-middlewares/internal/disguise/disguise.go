// Package disguise reverses encodings that hide text from a pattern: look-alike and
// invisible characters, spaced letters, escapes, base64, hexadecimal digits and JSON in a
// string.
package disguise

import "strings"

// Limits of [Forms]: the nesting depth of disguises, and the number of forms.
const (
	maxDepth = 4
	maxForms = 4096
)

// Forms returns the text itself and all forms to which it can be decoded, without duplicates. The
// work is linear in the text, except for nested disguises: complete is false beyond 4 levels, 4096
// forms, or 8 times the text's size plus 64 KiB. A caller that must not miss anything should then
// reject the text.
func Forms(text string) (forms []string, complete bool) {
	s := search{seen: map[string]bool{}, room: 8*len(text) + 64<<10, complete: true}
	level := []string{text}
	for depth := 0; len(level) > 0; depth++ {
		var next []string
		for _, t := range level {
			if !s.add(t) {
				continue
			}
			for _, read := range readings {
				next = append(next, read(t)...)
			}
		}
		if depth == maxDepth {
			// The result is still complete if all further forms are duplicates.
			for _, t := range next {
				s.complete = s.complete && (t == "" || s.seen[t])
			}
			break
		}
		level = next
	}
	return s.forms, s.complete
}

// readings are the functions that decode one layer of text.
var readings = []func(string) []string{
	func(t string) []string { return []string{Fold(t)} },
	func(t string) []string { return []string{join(t)} },
	func(t string) []string { return []string{unescape(t)} },
	base64s,
	hexes,
	jsons,
}

type search struct {
	forms    []string
	seen     map[string]bool
	room     int
	complete bool
}

// add adds a form and reports whether it is new. A form that exceeds a limit is not added and makes
// the search incomplete.
func (s *search) add(text string) bool {
	if s.seen[text] || text == "" && len(s.forms) > 0 {
		return false
	}
	if s.room < len(text) || len(s.forms) == maxForms {
		s.complete = false
		return false
	}
	s.room -= len(text)
	s.seen[text] = true
	s.forms = append(s.forms, text)
	return true
}

// join removes the separators between single letters, as in "i g n o r e", and the hyphens and
// similar signs between letters, as in "ig-nore". If several spaces separate words of such letters,
// join keeps the words apart.
func join(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		if !letter(at(runes, i-1)) || letter(c) {
			out.WriteRune(c)
			continue
		}
		switch {
		case strings.ContainsRune("-._*|~+·•/\\", c) && letter(at(runes, i+1)):
		case c == ' ' && single(runes, i-1) && single(runes, i+1):
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// single reports whether the character at i is a letter without adjacent letters.
func single(runes []rune, i int) bool {
	return letter(at(runes, i)) && !letter(at(runes, i-1)) && !letter(at(runes, i+1))
}

// at returns the character at index i, or 0 if there is none.
func at(runes []rune, i int) rune {
	if i < 0 || i >= len(runes) {
		return 0
	}
	return runes[i]
}

func letter(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0xC0 && c != '×' && c != '÷' && !invisible(c)
}
