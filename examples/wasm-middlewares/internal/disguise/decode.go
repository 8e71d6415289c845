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

// escapes are the ways to write a character by its number, or its name in HTML.
var escapes = regexp.MustCompile(`(?:%[0-9a-fA-F]{2})+|(?:\\x[0-9a-fA-F]{2})+|(?:\\u[0-9a-fA-F]{4})+|\\u\{[0-9a-fA-F]{1,6}\}|(?:\\[0-3][0-7]{2})+|` +
	`&#[0-9]{1,7};|&#[xX][0-9a-fA-F]{1,6};|&(?:amp|lt|gt|quot|apos|sol|bsol|period|lowbar|commat|colon|hyphen|dash|nbsp|Tab|NewLine);`)

var entities = map[string]string{
	"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "sol": "/", "bsol": `\`, "period": ".", "lowbar": "_", "commat": "@", "colon": ":",
	"hyphen": "-", "dash": "-", "nbsp": " ", "Tab": "\t", "NewLine": "\n",
}

// unescape puts characters in the place of their numbers.
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

// shortest writes characters of ASCII in one byte that are written in two: a reader of
// UTF-8 must refuse those, and some do not.
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

// units are characters of the basic plane, six bytes each, and pairs of surrogates.
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
	// Lines of base64 that follow each other are one text.
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}(?:\s+[A-Za-z0-9+/_-]{8,}={0,2})*`)
	hexRun    = regexp.MustCompile(`(?:[0-9a-fA-F]{2}[ :]?){7,}[0-9a-fA-F]{2}`)
)

// base64s are the texts that are written in base64 in a text: of each run of
// lines, and of each word.
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

// hexes are the texts that are written in hexadecimal digits in a text.
func hexes(text string) []string {
	var out []string
	for _, run := range hexRun.FindAllString(text, -1) {
		if b, ok := Hex(strings.NewReplacer(" ", "", ":", "").Replace(run)); ok {
			out = append(out, readable(b)...)
		}
	}
	return out
}

// readable is what bytes say, if they are a text: most that was decoded by
// mistake is none.
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

// jsons are the strings in a text that is JSON as a whole.
func jsons(text string) []string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || !strings.ContainsRune(`{["`, rune(trimmed[0])) || json.Valid([]byte(trimmed)) != nil {
		return nil
	}
	return texts(json.NewReader([]byte(trimmed)), nil)
}

// texts adds the strings of a value to out, keys among them.
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
