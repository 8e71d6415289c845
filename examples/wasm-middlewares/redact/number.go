package main

import "strings"

// card finds card numbers: 13 to 19 digits with a valid check digit (Luhn), starting with 2
// to 6, in one group or in groups of at least three separated by a space or a hyphen.
type card struct{}

const (
	minCard  = 13
	maxCard  = 19
	minGroup = 3
)

func separator(c byte) bool { return c == ' ' || c == '-' }

// mayFind implements [detector].
func (card) mayFind(s *survey) bool { return len(s.numbers) > 0 }

// find implements [detector].
func (card) find(v *view) []span {
	var out []span
	last := 0
	for _, i := range v.survey.numbers {
		if i < last || v.text[i] < '2' || v.text[i] > '6' {
			continue
		}
		if end := cardAt(v.text, i); end > 0 {
			out = append(out, span{from: i, to: end})
			last = end
		}
	}
	return out
}

// beginsGroup reports whether the digit at i may begin a number.
func beginsGroup(text string, i int) bool {
	return i == 0 || !inWord(text[i-1]) && text[i-1] != '.'
}

// cardAt returns the end of the longest card number that begins at i with one of its first digits, or 0.
func cardAt(text string, i int) (end int) {
	if !beginsGroup(text, i) {
		return 0
	}
	digits := 0
	for p := i; ; p++ {
		q := p
		for q < len(text) && digit(text[q]) && q-p <= maxCard {
			q++
		}
		digits += q - p
		if q-p < minGroup || digits > maxCard {
			return end
		}
		if digits >= minCard && (q == len(text) || !inWord(text[q])) && luhn(text[i:q]) {
			end = q
		}
		if q+1 >= len(text) || !separator(text[q]) || !digit(text[q+1]) {
			return end
		}
		p = q
	}
}

// open implements [detector]. It goes back group by group while a group could begin a card number
// that more digits would complete.
func (card) open(text string, from int) int {
	open, end, digits := len(text), len(text), 0
	growing := true // the last group may still grow
	if end > from && separator(text[end-1]) {
		end, growing = end-1, false
	}
	for {
		begin := end
		for begin > from && digit(text[begin-1]) && end-begin <= maxCard {
			begin--
		}
		digits += end - begin
		if begin == end || digits > maxCard || end-begin < minGroup && !growing || !beginsGroup(text, begin) {
			return open
		}
		open = begin
		if begin == from || !separator(text[begin-1]) {
			return open
		}
		end, growing = begin-1, false
	}
}

// luhn reports whether the check digit of a number is valid (ISO/IEC 7812-1).
func luhn(number string) bool {
	sum, double := 0, false
	for i := len(number) - 1; i >= 0; i-- {
		if !digit(number[i]) {
			continue
		}
		d := int(number[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

// iban finds international bank account numbers: of a country's length, with valid check
// digits, in one group or in groups of four separated by a space or a hyphen.
type iban struct{}

// ibanLengths lists countries and the lengths of their IBANs, from SWIFT's IBAN registry.
const ibanLengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 " +
	"EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 " +
	"LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 " +
	"QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// The minimum length of an IBAN, and the maximum length with separators.
const (
	minIBAN = 15
	maxIBAN = 33 + 8
)

// mayFind implements [detector].
func (iban) mayFind(s *survey) bool { return len(s.numbers) > 0 }

// find implements [detector].
func (iban) find(v *view) []span {
	var out []span
	begin := v.from
	for _, i := range v.survey.numbers {
		i -= 2 // the digits follow two letters
		if i < begin || !letter(v.text[i+1]) || !letter(v.text[i]) || i > 0 && alnum(v.text[i-1]) {
			continue
		}
		if end, _ := ibanAt(v.text, i); end > 0 {
			out = append(out, span{from: i, to: end})
			begin = end
		}
	}
	return out
}

// open implements [detector].
func (iban) open(text string, from int) int {
	for i := max(from, len(text)-maxIBAN); i < len(text); i++ {
		if !beginsWord(text, i) {
			continue
		}
		if _, open := ibanAt(text, i); open {
			return i
		}
	}
	return len(text)
}

func beginsWord(text string, i int) bool {
	return alnum(text[i]) && !digit(text[i]) && (i == 0 || !alnum(text[i-1]))
}

// ibanAt returns the end of the IBAN that begins at i, or 0, and whether more text could
// change that.
func ibanAt(text string, i int) (end int, open bool) {
	length, seen := maxIBAN, 0
	compact := make([]byte, 0, maxIBAN)
	for p := i; ; p++ {
		switch {
		case p == len(text):
			if seen == length && mod97(compact) {
				return p, true
			}
			return 0, true
		case seen == length:
			if alnum(text[p]) || !mod97(compact) {
				return 0, false
			}
			return p, false
		case separator(text[p]) && seen > 0 && seen%4 == 0 && alnum(text[p-1]):
			continue
		case !alnum(text[p]) || (seen < 2) == digit(text[p]) && seen < 4:
			return 0, false
		}
		compact = append(compact, upper(text[p]))
		if seen++; seen == 2 {
			at := strings.Index(ibanLengths, string(compact))
			if at < 0 {
				return 0, false
			}
			length = int(ibanLengths[at+2]-'0')*10 + int(ibanLengths[at+3]-'0')
		}
	}
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// mod97 reports whether the check digits of an IBAN are valid (ISO 13616). compact has digits and
// upper-case letters only.
func mod97(compact []byte) bool {
	rest := 0
	for i := range compact {
		c := compact[(i+4)%len(compact)]
		if digit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}
