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

// encoded returns the runs of base64 or hexadecimal digits whose decoded text contains a match.
// Each span covers a whole run.
func (s *scanner) encoded(text string, from int) []span { return s.runs(text, from, maxEncodings) }

// runs returns the encoded runs in text[from:] whose decoded text contains a match. It also decodes
// runs in the decoded text, up to the given depth.
func (s *scanner) runs(text string, from, depth int) []span {
	var out []span
	for i := from; i < len(text); i++ {
		begin, plain := i, true
		for i < len(text) && runs[text[i]] {
			plain = plain && (text[i] >= 'a' && text[i] <= 'z' || text[i] == '-')
			i++
		}
		if i-begin < minRun || plain { // too short, or probably a word
			continue
		}
		for _, decoded := range decode(text[begin:i]) {
			if k := s.holds(decoded, depth-1); k != nil {
				end := i
				for end < len(text) && end < i+2 && text[end] == '=' {
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
			if k.name != "" && len(k.find(v.text, 0)) > 0 {
				return k
			}
		}
		if depth > 0 && i == 0 {
			if spans := s.runs(v.text, 0, depth); len(spans) > 0 {
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
