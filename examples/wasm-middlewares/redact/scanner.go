package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// maxTail is the maximum number of bytes of a stream that are held back. Longer matches in
// a stream are hidden in pieces. The built-in kinds need 320 bytes; only custom patterns
// can need more.
const maxTail = 1024

// A detector finds one kind of data in a text from an index on. The text before that has been processed and
// only provides context.
type detector interface {
	// mayFind reports whether text with the given survey may contain a match.
	mayFind(s *survey) bool
	// find returns the matches in v.text[v.from:].
	find(v *view) []span
	// open returns the index from which more text could change the result of find, or the
	// text's length if there is none.
	open(text string, from int) int
}

// A span is a range of text and the kind of data in it.
type span struct {
	from, to int
	kind     *kind
}

// A kind is a kind of data to hide, and its replacement.
type kind struct {
	detector
	name    string // if empty, matches are not counted
	replace func(match string) string
	token   string // the label of its tokens or placeholders, if it has some
	exact   bool   // replace gets the unescaped text of a match in JSON
	blocks  bool   // text with a match is rejected
}

// A scanner hides several kinds of data.
type scanner struct {
	kinds  []*kind
	decode bool // also look for disguised data
}

// with returns a scanner for the kinds of s and for k.
func (s *scanner) with(k *kind) scanner {
	return scanner{append(slices.Clone(s.kinds), k), s.decode}
}

// permanent reports whether a kind has no tokens.
func permanent(k *kind) bool { return k.token == "" }

// labels returns the labels of the kinds with tokens or placeholders.
func (s *scanner) labels() (out []string) {
	for _, k := range s.kinds {
		if k.token != "" {
			out = append(out, k.token)
		}
	}
	return out
}

// only returns a copy of s without the kinds for which the function keep returns false.
func (s *scanner) only(keep func(*kind) bool) scanner {
	return scanner{slices.DeleteFunc(slices.Clone(s.kinds), func(k *kind) bool { return !keep(k) }), s.decode}
}

// finds counts the matches by kind.
type finds map[string]int

// report emits an event with the counts, without the data. It emits nothing if there were no
// matches.
func (f finds) report(ctx *middleware.Context, where string) error {
	if len(f) == 0 {
		return nil
	}
	return ctx.Emit("redacted", struct {
		In    string         `json:"in"`
		Found map[string]int `json:"found"`
	}{where, f})
}

// A tail is the end of streamed text that may still become part of a match.
type tail struct {
	Before string `json:"before,omitempty"` // the character before Text
	Seen   string `json:"seen,omitempty"`   // the last visible character before Text, in plain form
	Text   string `json:"text,omitempty"`

	// For JSON: the position at which Text begins.
	JSON  bool  `json:"json,omitempty"`
	Place place `json:"place,omitzero"`
}

// all returns the redacted form of a complete text, and counts the matches in found.
func (s *scanner) all(text string, found finds) string {
	return s.next(&tail{}, text, true, found)
}

// json returns the redacted form of a complete JSON value, and counts the matches in found.
func (s *scanner) json(text string, found finds) string {
	return s.next(&tail{JSON: true}, text, true, found)
}

// next appends a piece to a tail and returns the text to release: everything before the
// first possible match that is still incomplete, with complete matches replaced. With the
// last piece it returns everything.
func (s *scanner) next(t *tail, piece string, last bool, found finds) string {
	if len(s.kinds) == 0 {
		return piece
	}
	text, from := t.Before+t.Text+piece, len(t.Before)
	views := s.views(t, text, from, last)
	spans := s.find(views)
	if last && len(spans) == 0 && len(t.Before)+len(t.Text) == 0 {
		return piece
	}
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
		match := text[f.from:f.to]
		if t.JSON && f.kind.exact {
			match = unescaped(match)
		}
		out.WriteString(t.quoted(f.kind.replace(match)))
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
	if v := views[len(views)-1]; v.pieces != nil {
		t.Seen = v.last(cut)
	}
	return out.String()
}

// views returns the views of text to search. Without decode, or if nothing looks disguised, that is
// only the text itself; otherwise, it is the text itself and then its undisguised form. For JSON,
// it is only the undisguised form, because a match must not begin within an escape.
func (s *scanner) views(t *tail, text string, from int, last bool) []*view {
	bare := func() *view { return undisguised(text, from, t.Seen, t.JSON, last) }
	plain := asItIs(text, from)
	switch {
	case t.JSON && (from > 0 || disguised(text, from, &plain.survey, true, last)):
		return []*view{bare()}
	case s.decode && !t.JSON && (t.Seen != t.Before || disguised(text, from, &plain.survey, false, last)):
		return []*view{plain, bare()}
	default:
		return []*view{plain}
	}
}

// find returns the matches of all kinds, merged where they overlap.
func (s *scanner) find(views []*view) []span {
	var all []span
	for i, v := range views {
		for _, k := range s.kinds {
			if i > 0 && k.name == "" || !k.mayFind(&v.survey) {
				continue
			}
			for _, f := range k.find(v) {
				all = append(all, span{v.begin(f.from), v.end(f.to), k})
			}
		}
		if s.decode {
			for _, f := range s.encoded(v, maxEncodings) {
				all = append(all, span{v.begin(f.from), v.end(f.to), f.kind})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	var apart []span
	for _, f := range all {
		if n := len(apart); n > 0 && f.from < apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, f.to)
			if apart[n-1].kind.name == "" { // it is not data
				apart[n-1].kind = f.kind
			}
			continue
		}
		apart = append(apart, f)
	}
	return apart
}

// cut returns the length of the part of text whose redaction more text cannot change. It is never
// within a match or an escape.
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

// A place describes a position in a JSON text.
type place struct {
	Inside  bool `json:"inside,omitempty"`  // in a string
	Escaped bool `json:"escaped,omitempty"` // after a backslash
}

// pass advances the place past text, and returns text.
func (t *tail) pass(text string) string {
	if t.JSON {
		t.Place.pass(text)
	}
	return text
}

// pass advances p past text.
func (p *place) pass(text string) {
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
}

// quoted returns a replacement, in quotes if it replaces a number in JSON.
func (t *tail) quoted(text string) string {
	if t.JSON && !t.Place.Inside {
		return `"` + text + `"`
	}
	return text
}
