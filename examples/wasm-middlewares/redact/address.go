package main

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths in bytes, from RFC 5321 section 4.5.3.1 and RFC 1035 section 2.3.4.
const (
	maxLocal  = 64
	maxDomain = 253
	maxLabel  = 63
)

// email finds e-mail addresses: at most 64 bytes before the @, and a domain of at least two
// labels, the last of which begins with a letter. Letters are those of the Latin script.
type email struct{}

// mayFind implements [detector].
func (email) mayFind(s *survey) bool { return s.at }

// find implements [detector].
func (email) find(view *view) []span {
	text := view.text
	var out []span
	for minimum := view.from; ; {
		i := strings.IndexByte(text[minimum:], '@')
		if i < 0 {
			return out
		}
		at := minimum + i
		begin := local(text, minimum, at)
		end := domain(text, at+1)
		minimum = at + 1
		if begin < at && end > 0 {
			out = append(out, span{from: begin, to: end})
			minimum = end
		}
	}
}

// open implements [detector].
func (email) open(text string, from int) int {
	// Check whether the text ends within an address: the domain after an @ may continue.
	d := back(text, max(from, len(text)-maxDomain-1), len(text), inDomain)
	if d > from && text[d-1] == '@' {
		if begin := local(text, from, d-1); begin < d-1 {
			return begin
		}
	}
	return local(text, from, len(text))
}

// local returns the start of the local part that ends before index at. The result is in [minimum,
// at]; it equals at if there is no local part.
func local(text string, minimum, at int) int {
	begin := back(
		text,
		max(minimum, at-maxLocal),
		at,
		func(c rune) bool { return inDomain(c) || strings.ContainsRune("_%+", c) },
	)
	for begin < at && text[begin] == '.' {
		begin++
	}
	return begin
}

// domain returns the end of the domain that begins at i, or 0 if there is none.
func domain(text string, i int) (end int) {
	stop := min(len(text), i+maxDomain)
	for labels := 1; ; labels++ {
		last := i
		for last < stop {
			c, size := utf8.DecodeRuneInString(text[last:])
			if c == '.' || !inDomain(c) || last+size > stop {
				break
			}
			last += size
		}
		label := strings.TrimRight(text[i:last], "-")
		if label == "" || len(label) > maxLabel || label[0] == '-' {
			return end
		}
		if c, _ := utf8.DecodeRuneInString(label); labels > 1 && unicode.IsLetter(c) && utf8.RuneCountInString(label) > 1 {
			end = i + len(label)
		}
		if len(label) < last-i || last >= stop || text[last] != '.' {
			return end
		}
		i = last + 1
	}
}

func inDomain(c rune) bool {
	return c == '.' || c == '-' || c < utf8.RuneSelf && alnum(byte(c)) ||
		c >= utf8.RuneSelf && unicode.Is(unicode.Latin, c)
}

// back returns the start of the longest run of characters in the class that ends before index to
// and does not begin before index minimum.
func back(text string, minimum, to int, class func(rune) bool) int {
	for to > minimum {
		c, size := utf8.DecodeLastRuneInString(text[:to])
		if !class(c) || to-size < minimum {
			break
		}
		to -= size
	}
	return to
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
func alnum(c byte) bool  { return digit(c) || letter(c) }
func inWord(c byte) bool { return alnum(c) || c == '_' }

// ip finds IPv4 and IPv6 addresses. An IPv6 address must contain a decimal digit:
// face::cafe is more often something else.
type ip struct{}

// The minimum length of an address, and the maximum lengths, including a dot or colon that ends a sentence.
const (
	minIP   = len("::1")
	maxIPv4 = len("255.255.255.255") + 1
	maxIPv6 = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") + 1
)

// A version describes the addresses of one version of the Internet protocol.
type version struct {
	in      [256]bool // the characters of an address
	longest int
	length  func(run string) int // length of the address in run, without a dot or colon after it; 0 if none
}

var versions = []*version{
	newVersion("0123456789.", maxIPv4, ipv4),
	newVersion("0123456789.:abcdefABCDEF", maxIPv6, ipv6),
}

func newVersion(chars string, longest int, length func(string) int) *version {
	v := &version{longest: longest, length: length}
	for i := range len(chars) {
		v.in[chars[i]] = true
	}
	return v
}

// mayFind implements [detector].
func (ip) mayFind(s *survey) bool { return len(s.numbers) > 0 }

// find implements [detector].
func (ip) find(view *view) []span {
	var out []span
	for _, v := range versions {
		out = v.find(out, view)
	}
	return out
}

// open implements [detector].
func (ip) open(text string, from int) int {
	minimum := len(text)
	for _, v := range versions {
		begin := len(text)
		for begin > from && v.in[text[begin-1]] && len(text)-begin <= v.longest {
			begin--
		}
		if len(text)-begin <= v.longest {
			minimum = min(minimum, begin)
		}
	}
	return minimum
}

// find appends to out the addresses of a view. It checks each run of an address's characters that
// has a digit and is not adjacent to a word character, and ignores a run that begins before the
// unprocessed text.
func (v *version) find(out []span, view *view) []span {
	text, from, i := view.text, view.from, 0
	for _, begin := range view.survey.numbers {
		if begin < i { // the last run had it
			continue
		}
		i = begin + 1
		for begin > from && v.in[text[begin-1]] {
			begin--
		}
		for i < len(text) && v.in[text[i]] {
			i++
		}
		if i-begin < minIP {
			continue
		}
		if begin == from && from > 0 && v.in[text[from-1]] {
			continue
		}
		// A colon may follow a word, as in "ip:fe80::1".
		if text[begin] == ':' && !strings.HasPrefix(text[begin:], "::") {
			begin++
		}
		if begin > 0 && inWord(text[begin-1]) || i < len(text) && inWord(text[i]) {
			continue
		}
		if n := v.length(text[begin:i]); n > 0 {
			out = append(out, span{from: begin, to: begin + n})
		}
	}
	return out
}

// ipv4 returns the length of the IPv4 address that run consists of, or 0 if run is not an address.
// A dot may follow the address; it does not count.
func ipv4(run string) int {
	run = strings.TrimSuffix(run, ".")
	if len(run) >= maxIPv4 || strings.Count(run, ".") != 3 {
		return 0
	}
	for g := range strings.SplitSeq(run, ".") {
		n := 0
		for i := range len(g) {
			n = n*10 + int(g[i]-'0')
		}
		if g == "" || len(g) > 3 || n > 255 {
			return 0
		}
	}
	return len(run)
}

// ipv6 is like ipv4 for IPv6 addresses.
func ipv6(run string) int {
	if strings.HasSuffix(run, ".") || strings.HasSuffix(run, ":") && !strings.HasSuffix(run, "::") {
		run = run[:len(run)-1]
	}
	if len(run) >= maxIPv6 || strings.Count(run, ":") < 2 || !strings.ContainsAny(run, "0123456789") {
		return 0
	}
	if a, err := netip.ParseAddr(run); err != nil || !a.Is6() {
		return 0
	}
	return len(run)
}
