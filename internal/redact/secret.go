package redact

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// minLength is the minimum length in bytes of a form that is derived from a secret. Shorter forms
// occur by chance.
const minLength = 8

// A Secret is a value prepared for [Text].
type Secret struct {
	mark     string
	patterns [][]rune
}

// NewSecret prepares a value that mark replaces. The value must be UTF-8 and not empty. NewSecret also prepares the
// forms in which a server receives or returns the value: its base64 form, alone and within other data, and the value
// without its own escapes. It ignores derived forms of fewer than 8 bytes; the value itself can be shorter.
func NewSecret(value, mark string) *Secret {
	s := &Secret{mark: mark, patterns: [][]rune{[]rune(value)}}
	plain := append([]string{value}, decoded(value)...)
	for _, form := range plain[1:] {
		s.add(form)
	}
	for _, form := range plain {
		for _, e := range encoded(form) {
			s.add(e)
		}
	}
	return s
}

// add adds a derived form as a pattern, unless it is too short, is not valid UTF-8 or is a pattern
// already.
func (s *Secret) add(form string) {
	if len(form) < minLength || !utf8.ValidString(form) {
		return
	}
	p := []rune(form)
	if !slices.ContainsFunc(s.patterns, func(q []rune) bool { return slices.Equal(p, q) }) {
		s.patterns = append(s.patterns, p)
	}
}

// decoded returns the decoded forms of a value: without the escapes of a URL, of a JSON string or
// of HTML, and decoded from base64, which the Authorization header uses for a user and a password.
func decoded(value string) []string {
	var out []string
	add := func(form string) {
		if form != value && len(form) >= minLength {
			out = append(out, form)
		}
	}
	for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
		if form, err := unescape(value); err == nil {
			add(form)
		}
	}
	var form string
	if json.Unmarshal([]byte(`"`+value+`"`), &form) == nil {
		add(form)
	}
	add(html.UnescapeString(value))
	bare := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(strings.TrimPrefix(value, "Basic "))
	if b, err := base64.RawStdEncoding.DecodeString(bare); err == nil && utf8.Valid(b) {
		add(string(b))
		if _, password, ok := strings.Cut(string(b), ":"); ok {
			add(password)
		}
	}
	return out
}

// encoded returns the base64 forms of a value in both alphabets, at each of the three alignments
// within other data. It omits the characters that depend on that data.
func encoded(value string) []string {
	var out []string
	for shift := range 3 {
		b := append(make([]byte, shift), value...)
		text := base64.RawStdEncoding.EncodeToString(b)
		from, to := (shift*8+5)/6, len(b)*8/6
		text = text[from:to]
		out = append(out, text, strings.NewReplacer("+", "-", "/", "_").Replace(text))
	}
	return out
}
