package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A speech is an index of trusted text. The time to find a value depends on how often its rarest word
// occurs in the text.
type speech struct {
	words []string           // words of all texts in order; "" separates texts
	at    map[string][]int32 // positions of each word in words
	// whole has the parts of the text between spaces, quotes and brackets, such as addresses and
	// paths, in lower case.
	whole   map[string]bool
	hosts   map[string]bool // hosts of URLs
	amounts map[string]bool // numbers with a decimal point, without trailing zeros
	names   map[string]bool // capitalized words, in lower case
	left    int             // number of bytes that can be added
}

// Limits of the texts in an index, in bytes. Text beyond them does not count as trusted.
const (
	maxSpeech  = 128 << 10 // of the user and the system in a conversation
	maxRequest = 64 << 10
)

// newSpeech returns an index for at most n bytes.
func newSpeech(n int) *speech {
	return &speech{
		left:    n,
		at:      map[string][]int32{},
		whole:   map[string]bool{},
		hosts:   map[string]bool{},
		amounts: map[string]bool{},
		names:   map[string]bool{},
	}
}

// add adds text to the index.
func (s *speech) add(text string) {
	text = shorten(text, s.left)
	s.left -= len(text)
	for part := range strings.FieldsFuncSeq(text, isBracket) {
		s.addWhole(part)
	}
	s.words = append(s.words, "")
	for w := range strings.FieldsFuncSeq(text, isSeparator) {
		lower := strings.ToLower(w)
		if first, _ := utf8.DecodeRuneInString(w); unicode.IsUpper(first) {
			s.names[lower] = true
		}
		s.at[lower] = append(s.at[lower], int32(len(s.words)))
		s.words = append(s.words, lower)
	}
}

// addWhole adds a part of a text that may be an address, a URL, a path, a number or an ID.
func (s *speech) addWhole(part string) {
	part = strings.TrimRight(strings.TrimLeft(part, ".,:;!?*_-"), ".,:;!?*")
	part = strings.ToLower(strings.TrimSuffix(part, "'s"))
	if part == "" {
		return
	}
	s.whole[part] = true
	if u, host := asURL(part); host != "" {
		s.whole[u], s.hosts[host] = true, true
	}
	if n := asAmount(part); n != "" {
		s.amounts[n] = true
	}
}

// isBracket reports whether a character separates parts of a text.
func isBracket(c rune) bool {
	switch c {
	case '"', '\'', '`', '“', '”', '‘', '’', '«', '»', '<', '>', '(', ')', '[', ']', '{', '}', ',', ';', '|':
		return true
	}
	return unicode.IsSpace(c)
}

// has reports whether the trusted text contains value: exactly if value is an address, a URL, a path
// or a number, and otherwise as a sequence of words. It ignores case, and the spaces and hyphens in
// account numbers.
func (s *speech) has(value string) bool {
	v := strings.ToLower(strings.TrimSpace(value))
	switch {
	case v == "" || s.whole[v]:
		return true
	case !plain(v):
		return false
	}
	if u, host := asURL(v); host != "" && s.whole[u] {
		return true
	}
	if isWhole(v) {
		return false
	}
	return s.phrase(split(v)) || s.compact(v)
}

// isWhole reports whether v is an address, a URL, a path or another value that the text must
// contain exactly.
func isWhole(v string) bool {
	return !strings.ContainsAny(v, " \n\t") && strings.ContainsAny(v, "@/\\:_=?&#%+.~$")
}

// plain reports whether v consists of letters, digits, line breaks and printable ASCII characters.
// Other characters can be invisible.
func plain(v string) bool {
	for _, c := range v {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7F || c > 0x7F && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

// phrase reports whether the text contains the given sequence of words.
func (s *speech) phrase(words []string) bool { return s.find(words) >= 0 }

// find returns a position of the given sequence of words in the text, or -1 if there is none.
func (s *speech) find(words []string) int {
	if len(words) == 0 {
		return -1
	}
	rare := 0 // the word with the fewest positions
	for i, w := range words {
		if len(s.at[w]) < len(s.at[words[rare]]) {
			rare = i
		}
	}
	for _, at := range s.at[words[rare]] {
		from := int(at) - rare
		if from < 0 || from+len(words) > len(s.words) {
			continue
		}
		same := true
		for i, w := range words {
			same = same && s.words[from+i] == w
		}
		if same {
			return from
		}
	}
	return -1
}

// minAccount is the minimum number of characters of an account number that may be spelled with
// spaces and hyphens.
const minAccount = 8

// compact reports whether the text contains v, an account or telephone number, even if the text and
// v separate the groups of the number differently.
func (s *speech) compact(v string) bool {
	number := strings.Join(split(v), "")
	if len(number) < minAccount || !strings.ContainsAny(number, "0123456789") {
		return false
	}
	for n := 1; n <= len(number); n++ {
		for _, at := range s.at[number[:n]] {
			rest := number[n:]
			for i := int(at) + 1; rest != "" && i < len(s.words) && s.words[i] != ""; i++ {
				var ok bool
				if rest, ok = strings.CutPrefix(rest, s.words[i]); !ok {
					break
				}
			}
			if rest == "" {
				return true
			}
		}
	}
	return false
}

// shorten returns the longest beginning of text of at most n bytes that does not end within a word.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:strings.LastIndexFunc(text[:n], unicode.IsSpace)+1]
}

// split returns the words of a text: the longest sequences of letters and digits.
func split(text string) []string {
	return strings.FieldsFunc(text, isSeparator)
}

// isSeparator reports whether a character separates words.
func isSeparator(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }

// asURL returns v without its scheme, "www." and a slash at the end, and its host. It returns empty
// strings if v is not a URL. v is in lower case.
func asURL(v string) (short, host string) {
	short = strings.TrimPrefix(strings.TrimPrefix(v, "https://"), "http://")
	hasScheme := short != v
	short = strings.TrimSuffix(strings.TrimPrefix(short, "www."), "/")
	host = short
	if i := strings.IndexAny(short, "/?#:\\"); i >= 0 {
		host = short[:i]
	}
	dot := strings.LastIndexByte(host, '.')
	if strings.ContainsAny(host, "@ ") || dot <= 0 || !hasScheme && !isDomain(host[dot+1:]) {
		return "", ""
	}
	return short, host
}

// isDomain reports whether v can be a top-level domain: it has only letters, and is not the
// extension of a kind of file.
func isDomain(v string) bool {
	if len(v) < 2 || topics[v]&files != 0 {
		return false
	}
	for _, c := range v {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// asAmount returns v without its currency sign and trailing zeros if it is a number with a decimal
// point, and "" otherwise.
func asAmount(v string) string {
	v = strings.Trim(v, "$€£¥")
	whole, cents, ok := strings.Cut(v, ".")
	if !ok || whole == "" || cents == "" || !digits(whole) || !digits(cents) {
		return ""
	}
	return strings.TrimRight(strings.TrimRight(v, "0"), ".")
}

func digits(v string) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return v != ""
}
