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
	name    string // empty: it is not counted
	replace func(match string) string
	token   string // the label of its tokens, if it has some
	blocks  bool   // what it is found in is refused
}

// A scanner hides several kinds.
type scanner struct {
	kinds  []*kind
	decode bool // look through disguises, too
}

// with returns a scanner that hides another kind as well.
func (s *scanner) with(k *kind) scanner {
	return scanner{append(slices.Clone(s.kinds), k), s.decode}
}

// lasting are the kinds without tokens.
func lasting(k *kind) bool { return k.token == "" }

// only returns a scanner of the kinds that are kept.
func (s *scanner) only(keep func(*kind) bool) scanner {
	return scanner{slices.DeleteFunc(slices.Clone(s.kinds), func(k *kind) bool { return !keep(k) }), s.decode}
}

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
	Seen   string `json:"seen,omitempty"`   // the same without disguises: one that can be seen
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
	views := s.views(t, text, from, last)
	spans := s.find(views)
	cut := len(text)
	if !last {
		cut = s.cut(text, views, spans)
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
		if f.kind.name != "" {
			found[f.kind.name]++
		}
		at = f.to
	}
	if at < cut {
		out.WriteString(t.pass(text[at:cut]))
	}
	_, size := utf8.DecodeLastRuneInString(text[:cut])
	t.Before, t.Text = text[cut-size:cut], text[cut:]
	t.Seen = t.Before
	if v := views[len(views)-1]; v.begins != nil {
		t.Seen = v.last(cut)
	}
	return out.String()
}

// views returns the ways to see a text, the one without disguises last. Of JSON
// there is that one alone: what a find begins with must be no half of an escape.
func (s *scanner) views(t *tail, text string, from int, last bool) []*view {
	bare := func() *view { return undisguised(text, from, t.Seen, t.JSON, last) }
	switch {
	case t.JSON:
		return []*view{bare()}
	case s.decode && (t.Seen != t.Before || disguised(text[from:])):
		return []*view{asItIs(text, from), bare()}
	default:
		return []*view{asItIs(text, from)}
	}
}

// find returns what all kinds find, as stretches that lie apart: where two
// overlap they are one.
func (s *scanner) find(views []*view) []span {
	var all []span
	for i, v := range views {
		for _, k := range s.kinds {
			if i > 0 && k.name == "" {
				continue
			}
			for _, f := range k.find(v.text, v.from) {
				all = append(all, span{v.begin(f.from), v.end(f.to), k})
			}
		}
		if s.decode {
			for _, f := range s.encoded(v.text, v.from) {
				all = append(all, span{v.begin(f.from), v.end(f.to), f.kind})
			}
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
// within a find, nor within an escape.
func (s *scanner) cut(text string, views []*view, spans []span) int {
	cut := len(text)
	for _, v := range views {
		cut = min(cut, v.to)
		for _, k := range s.kinds {
			cut = min(cut, v.begin(k.open(v.text, v.from)))
		}
		if s.decode {
			cut = min(cut, v.begin(openRun(v.text, v.from)))
		}
	}
	across := func() (span, bool) {
		i := slices.IndexFunc(spans, func(f span) bool { return f.from < cut && cut < f.to })
		if i < 0 {
			return span{}, false
		}
		return spans[i], true
	}
	for was := -1; was != cut; {
		was = cut
		for _, v := range views {
			cut = v.whole(cut)
		}
		if f, ok := across(); ok {
			cut = f.from
		}
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
