package main

import (
	"encoding/base64"
	"math/bits"
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
			if k.name != "" && k.mayFind(&v.survey) && len(k.find(v)) > 0 {
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
	for i > from && inRun(text[i-1]) {
		i--
	}
	if i < len(text) && text[i] == '=' {
		return len(text)
	}
	return i
}

// decode decodes a run in each encoding, and returns the printable results.
func decode(run string) []string {
	var out []string
	if hexadecimal(run[0]) && hexadecimal(run[1]) {
		if b, ok := disguise.Hex(run); ok && readable(b) {
			out = append(out, string(b))
		}
	}
	if mayDecode(run) {
		digits := standard.Replace(run)
		if len(digits)%4 == 1 {
			digits = digits[:len(digits)-1]
		}
		if b, err := base64.RawStdEncoding.DecodeString(digits); err == nil && readable(b) {
			out = append(out, string(b))
		}
	}
	return out
}

var standard = strings.NewReplacer("-", "+", "_", "/")

// base64Digits has the values of the digits of base64, in the standard alphabet and in that for URLs.
var base64Digits = func() (values [256]byte) {
	for i := range 64 {
		values["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[i]] = byte(i)
	}
	values['-'], values['_'] = values['+'], values['/']
	return values
}()

// mayDecode reports whether a run of base64 digits may decode to printable text. It returns false at the first
// control character, or byte that is not UTF-8, so that few words of a text are decoded.
func mayDecode(run string) bool {
	digits, more := uint32(0), 0 // more is the number of bytes that the last character lacks
	for i := range len(run) {
		digits = digits<<6 | uint32(base64Digits[run[i]])
		if i%4 == 0 {
			continue
		}
		b := byte(digits >> (6 - 2*(i%4)))
		switch {
		case more > 0:
			if b>>6 != 2 {
				return false
			}
			more--
		case b < ' ' && (b < '\t' || b > '\r') || b == 0x7f || b >= 0x80 && b < 0xc2 || b > 0xf4:
			return false
		case b >= utf8.RuneSelf:
			more = bits.LeadingZeros8(^b) - 1
		}
	}
	return more == 0
}

// readable reports whether bytes are printable text, which excludes most accidental
// decodings.
func readable(b []byte) bool {
	text := string(b)
	return utf8.ValidString(text) &&
		strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) && !unicode.IsSpace(c) }) < 0
}
