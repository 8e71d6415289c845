package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// maxTail is how many bytes of a stream are held back at most, and so the
// length up to which a find in a stream is hidden as one. The built-in kinds
// need 320; only patterns of one's own can want more.
const maxTail = 1024

// A detector finds one kind of data. It is given a text and where to begin:
// what lies before that is passed, and only there to tell what the text
// follows.
type detector interface {
	// find returns where the finds are.
	find(text string, from int) []span
	// open returns the index from which on more text could change what find
	// says; the text's length if nowhere.
	open(text string, from int) int
}

// A span is a stretch of a text, of a kind.
type span struct {
	from, to int
	kind     *kind
}

// A kind is something to hide, and how.
type kind struct {
	detector
	name    string
	replace func(match string) string
}

// A scanner hides several kinds.
type scanner struct{ kinds []*kind }

// finds count what was found, by the names of the kinds.
type finds map[string]int

// tell makes an event of what was hidden; what it was is not told.
func (f finds) tell(ctx *middleware.Context, where string) error {
	if len(f) == 0 {
		return nil
	}
	return ctx.Emit("redacted", struct {
		In    string         `json:"in"`
		Found map[string]int `json:"found"`
	}{where, f})
}

// A tail is the end of a text that may still grow into something to hide.
type tail struct {
	Before string `json:"before,omitempty"` // the character before it
	Text   string `json:"text,omitempty"`

	// In a text of JSON: where in it Text begins.
	JSON  bool  `json:"json,omitempty"`
	Place place `json:"place,omitzero"`
}

// all hides in a text that is complete.
func (s *scanner) all(text string, found finds) string {
	return s.next(&tail{}, text, true, found)
}

// json hides in a complete text of JSON.
func (s *scanner) json(text string, found finds) string {
	return s.next(&tail{JSON: true}, text, true, found)
}

// next adds a piece to a tail and returns what can be shown of both: nothing
// of a find, of anything that may become one, or behind that. With the last
// piece everything is shown.
func (s *scanner) next(t *tail, piece string, last bool, found finds) string {
	text, from := t.Before+t.Text+piece, len(t.Before)
	spans := s.find(text, from)
	cut := len(text)
	if !last {
		cut = s.cut(text, from, spans)
	}
	var out strings.Builder
	at := from
	for _, f := range spans {
		if f.from >= cut {
			break
		}
		out.WriteString(t.pass(text[at:f.from]))
		out.WriteString(t.quoted(f.kind.replace(text[f.from:f.to])))
		t.pass(text[f.from:f.to])
		found[f.kind.name]++
		at = f.to
	}
	if at < cut {
		out.WriteString(t.pass(text[at:cut]))
	}
	_, size := utf8.DecodeLastRuneInString(text[:cut])
	t.Before, t.Text = text[cut-size:cut], text[cut:]
	return out.String()
}

// find returns what all kinds find, as stretches that lie apart: where two
// overlap they are one.
func (s *scanner) find(text string, from int) []span {
	var all []span
	for _, k := range s.kinds {
		for _, f := range k.find(text, from) {
			f.kind = k
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	var apart []span
	for _, f := range all {
		if n := len(apart); n > 0 && f.from < apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, f.to)
			continue
		}
		apart = append(apart, f)
	}
	return apart
}

// cut is where the text ends that more text cannot change. It never lies
// within a find.
func (s *scanner) cut(text string, from int, spans []span) int {
	cut := len(text)
	for _, k := range s.kinds {
		cut = min(cut, k.open(text, from))
	}
	across := func() (span, bool) {
		i := slices.IndexFunc(spans, func(f span) bool { return f.from < cut && cut < f.to })
		if i < 0 {
			return span{}, false
		}
		return spans[i], true
	}
	if f, ok := across(); ok {
		cut = f.from
	}
	if cut >= len(text)-maxTail {
		return cut
	}
	for cut = len(text) - maxTail; !utf8.RuneStart(text[cut]); {
		cut++
	}
	if f, ok := across(); ok {
		cut = f.to
	}
	return cut
}

// A place is where in a text of JSON something stands.
type place struct {
	Inside  bool `json:"inside,omitempty"`  // a string
	Escaped bool `json:"escaped,omitempty"` // right behind a backslash
}

// pass moves the place to behind text, and returns text.
func (t *tail) pass(text string) string {
	if !t.JSON {
		return text
	}
	p := &t.Place
	for i := range len(text) {
		switch {
		case p.Escaped:
			p.Escaped = false
		case p.Inside && text[i] == '\\':
			p.Escaped = true
		case text[i] == '"':
			p.Inside = !p.Inside
		}
	}
	return text
}

// quoted makes a string of what stands in the place of a number.
func (t *tail) quoted(text string) string {
	if t.JSON && !t.Place.Inside {
		return `"` + text + `"`
	}
	return text
}
