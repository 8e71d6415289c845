package main

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/disguise"
)

// Limits of decoding: the minimum length of an encoded run, and the maximum nesting of
// encodings.
const (
	minRun       = 12
	maxEncodings = 3
)

// encoded returns the runs of base64 or hexadecimal digits in v.text[v.from:] whose decoded text contains a
// match. Each span covers a whole run. It also decodes runs in the decoded text, up to the given depth.
func (s *scanner) encoded(v *view, depth int) []span {
	var out []span
	for _, r := range v.survey.runs {
		begin, end := r[0], r[1]
		for _, decoded := range decode(v.text[begin:end]) {
			if k := s.holds(decoded, depth-1); k != nil {
				for n := end; end < len(v.text) && end < n+2 && v.text[end] == '='; {
					end++
				}
				out = append(out, span{begin, end, k})
				break
			}
		}
	}
	return out
}

// holds returns the kind of a match in text, or nil if there is none.
func (s *scanner) holds(text string, depth int) *kind {
	for i, v := range s.views(&tail{}, text, 0, true) {
		for _, k := range s.kinds {
			if k.name != "" && k.mayFind(&v.survey) && len(k.find(v.text, 0)) > 0 {
				return k
			}
		}
		if depth > 0 && i == 0 {
			if spans := s.encoded(v, depth); len(spans) > 0 {
				return spans[0].kind
			}
		}
	}
	return nil
}

// openRun returns the start of the encoded run at the end of the text, or the text's length if
// there is none.
func openRun(text string, from int) int {
	i := len(text)
	for i > from && text[i-1] == '=' && len(text)-i < 2 {
		i--
	}
	for i > from && runs[text[i-1]] {
		i--
	}
	if i < len(text) && text[i] == '=' {
		return len(text)
	}
	return i
}

// runs holds the characters of an encoded run.
var runs = func() (in [256]bool) {
	for c := range in {
		in[c] = alnum(byte(c)) || strings.IndexByte("+/-_", byte(c)) >= 0
	}
	return in
}()

var standard = strings.NewReplacer("-", "+", "_", "/")

// decode decodes a run in each encoding, and returns the printable results.
func decode(run string) []string {
	var out []string
	if b, ok := disguise.Hex(run); ok && readable(b) {
		out = append(out, string(b))
	}
	word := standard.Replace(run)
	if len(word)%4 == 1 {
		word = word[:len(word)-1]
	}
	if b, err := base64.RawStdEncoding.DecodeString(word); err == nil && readable(b) {
		out = append(out, string(b))
	}
	return out
}

// readable reports whether bytes are printable text, which excludes most accidental
// decodings.
func readable(b []byte) bool {
	text := string(b)
	return utf8.ValidString(text) &&
		strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) && !unicode.IsSpace(c) }) < 0
}
