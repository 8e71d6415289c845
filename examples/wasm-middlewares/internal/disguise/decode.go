package disguise

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// escapes matches characters written by their number, or by their name in HTML.
var escapes = regexp.MustCompile(
	`(?:%[0-9a-fA-F]{2})+|(?:\\x[0-9a-fA-F]{2})+|(?:\\u[0-9a-fA-F]{4})+|\\u\{[0-9a-fA-F]{1,6}\}|(?:\\[0-3][0-7]{2})+|` +
		`&#[0-9]{1,7};|&#[xX][0-9a-fA-F]{1,6};|&(?:amp|lt|gt|quot|apos|sol|bsol|period|lowbar|commat|colon|hyphen|dash|nbsp|Tab|NewLine);`,
)

var entities = map[string]string{
	"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "sol": "/", "bsol": `\`, "period": ".", "lowbar": "_", "commat": "@", "colon": ":",
	"hyphen": "-", "dash": "-", "nbsp": " ", "Tab": "\t", "NewLine": "\n",
}

// unescape returns text with characters in place of their escapes.
func unescape(text string) string {
	if !strings.ContainsAny(text, `%\&`) {
		return text
	}
	return escapes.ReplaceAllStringFunc(text, func(s string) string {
		var out string
		switch {
		case s[0] == '%':
			b, _ := Hex(strings.ReplaceAll(s, "%", ""))
			out = string(shortest(b))
		case strings.HasPrefix(s, `\x`):
			b, _ := Hex(strings.ReplaceAll(s, `\x`, ""))
			out = string(b)
		case strings.HasPrefix(s, `\u{`):
			out = character(s[3:len(s)-1], 16)
		case s[0] == '\\' && s[1] != 'u':
			var b []byte
			for i := 0; i < len(s); i += 4 {
				b = append(b, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			}
			out = string(b)
		case s[0] == '\\':
			out = units(s)
		case s[1] != '#':
			out = entities[s[1:len(s)-1]]
		case s[2] == 'x' || s[2] == 'X':
			out = character(s[3:len(s)-1], 16)
		default:
			out = character(s[2:len(s)-1], 10)
		}
		return strings.ToValidUTF8(out, "")
	})
}

// shortest rewrites two-byte encodings of ASCII characters as one byte. UTF-8 decoders must
// reject such overlong encodings, but some accept them.
func shortest(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); i++ {
		if (b[i] == 0xC0 || b[i] == 0xC1) && i+1 < len(b) && b[i+1]>>6 == 2 {
			out = append(out, b[i]&1<<6|b[i+1]&0x3F)
			i++
			continue
		}
		out = append(out, b[i])
	}
	return out
}

// units decodes a sequence of \uXXXX escapes, six bytes each, including surrogate pairs.
func units(s string) string {
	var all []uint16
	for i := 0; i+6 <= len(s); i += 6 {
		n, _ := strconv.ParseUint(s[i+2:i+6], 16, 16)
		all = append(all, uint16(n))
	}
	return string(utf16.Decode(all))
}

func character(number string, base int) string {
	n, err := strconv.ParseUint(number, base, 32)
	if err != nil || n > unicode.MaxRune {
		return ""
	}
	return string(rune(n))
}

var (
	// base64Run matches a run of base64. Consecutive lines belong to one run.
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}(?:\s+[A-Za-z0-9+/_-]{8,}={0,2})*`)
	hexRun    = regexp.MustCompile(`(?:[0-9a-fA-F]{2}[ :]?){7,}[0-9a-fA-F]{2}`)
)

// base64s decodes the base64 in text and returns the readable results. It decodes each run of lines
// as a whole, and each word of a run.
func base64s(text string) []string {
	var out []string
	for _, run := range base64Run.FindAllString(text, -1) {
		words := strings.Fields(run)
		if len(words) > 1 {
			out = append(out, fromBase64(strings.Join(words, ""))...)
		}
		for _, word := range words {
			out = append(out, fromBase64(word)...)
		}
	}
	return out
}

var standard = strings.NewReplacer("-", "+", "_", "/", "=", "")

func fromBase64(word string) []string {
	word = standard.Replace(word)
	if len(word)%4 == 1 {
		word = word[:len(word)-1]
	}
	b, err := base64.RawStdEncoding.DecodeString(word)
	if err != nil {
		return nil
	}
	return readable(b)
}

// hexes decodes the runs of hexadecimal digits in text and returns the readable results.
func hexes(text string) []string {
	var out []string
	for _, run := range hexRun.FindAllString(text, -1) {
		if b, ok := Hex(strings.NewReplacer(" ", "", ":", "").Replace(run)); ok {
			out = append(out, readable(b)...)
		}
	}
	return out
}

// readable returns the bytes as a string if they are printable UTF-8 of at least 4 bytes, and
// nil otherwise. This drops most accidental decodings.
func readable(b []byte) []string {
	text := string(b)
	if !utf8.ValidString(text) || len(text) < 4 {
		return nil
	}
	for _, c := range text {
		if !unicode.IsPrint(c) && !unicode.IsSpace(c) && !invisible(c) {
			return nil
		}
	}
	return []string{text}
}

// jsons returns the strings in text if text is a JSON object, array or string, and nil
// otherwise.
func jsons(text string) []string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || !strings.ContainsRune(`{["`, rune(trimmed[0])) || json.Valid([]byte(trimmed)) != nil {
		return nil
	}
	return texts(json.NewReader([]byte(trimmed)), nil)
}

// texts appends the strings in a JSON value to out, including object keys.
func texts(r *json.Reader, out []string) []string {
	switch r.Kind() {
	case '{':
		for r.Key() {
			out = texts(r, append(out, r.Name()))
		}
	case '[':
		for r.Next() {
			out = texts(r, out)
		}
	case '"':
		out = append(out, r.Text())
	default:
		r.Skip()
	}
	return out
}
