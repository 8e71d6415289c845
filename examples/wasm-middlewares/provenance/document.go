package main

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A delegation is a kind of values that a request leaves to a document, such as a file or a page.
type delegation uint8

const (
	toPay    delegation = iota // the account to pay, as in "pay the bill x.txt"
	toUpdate                   // details of an account, as in "read x.txt and update my profile accordingly"
)

// delegated reports whether the request leaves the value v to a document that determines it uniquely.
// An account to pay must be a field of the document, as in "IBAN: …", and its only account number. In
// addition, the document must contain all numbers in the call's arguments, and the model must not
// have called the tool with the account since the request. A detail of an account must be the only
// value of its field.
func (h *history) delegated(ctx *middleware.Context, a *attempt, v scalar) bool {
	switch {
	case a.effect&pays != 0 && a.effect&creates == 0 && v.role == target:
		for _, text := range h.documents(ctx, toPay) {
			if onlyAccount(text, v.text) && hasNumbers(text, a.arguments) && !h.repeats(ctx, a, v.text) {
				return true
			}
		}
	case a.effect&manages != 0 && v.role == detail:
		for _, text := range h.documents(ctx, toUpdate) {
			if hasDetail(text, v.text) {
				return true
			}
		}
	}
	return false
}

// repeats reports whether the model has made another call of the same tool with the value v since
// the request.
func (h *history) repeats(ctx *middleware.Context, a *attempt, v string) bool {
	for from := h.asked; from < h.read; {
		got, err := ctx.Messages(from, min(from+block, h.read))
		if err != nil || len(got) == 0 {
			return true
		}
		for i := range got {
			for _, c := range got[i].ToolCalls {
				if c.ID != a.call.ID && c.Function.Name == a.tool && a.uses(c.Function.Arguments, v) {
					return true
				}
			}
		}
		from += len(got)
	}
	return false
}

// uses reports whether the arguments of another call of the same tool contain the account v. It
// returns true if they cannot be read.
func (a *attempt) uses(arguments, v string) bool {
	object, err := readArguments(arguments)
	return err != nil || slices.ContainsFunc(scalars(nil, target, a.sink, object), func(other scalar) bool {
		return compact(other.text) == compact(v)
	})
}

// compact returns v, an account number, in lower case and without spaces and hyphens.
func compact(v string) string { return strings.Join(split(strings.ToLower(v)), "") }

// maxDocument is the maximum number of bytes of a document to which a request can delegate.
const maxDocument = 64 << 10

// documents returns the texts of the documents to which the request delegates, by name. If a document
// was read several times, its text consists of all results. Documents of more than maxDocument bytes
// are omitted.
func (h *history) documents(ctx *middleware.Context, d delegation) map[string]string {
	out := map[string]string{}
	for i := len(h.sources) - 1; i >= max(0, len(h.sources)-maxSearched); i-- {
		s := &h.sources[i]
		if s.call == "" || !s.returnsProse() || slices.ContainsFunc(nameWords(s.tool), isSearch) {
			continue
		}
		name := s.document(ctx, h.request)
		if name != "" && h.request.delegates(name, d) {
			out[name] += s.text(ctx) + "\n"
		}
	}
	for name, text := range out {
		if len(text) > maxDocument {
			delete(out, name)
		}
	}
	return out
}

// document returns the name of the document that the source contains: an argument of the source's
// call that the request mentions, such as a path or a URL. It returns "" if the request mentions
// none.
func (s *source) document(ctx *middleware.Context, q *request) string {
	got, err := ctx.Messages(s.calledAt, s.calledAt+1)
	if err != nil || len(got) == 0 {
		return ""
	}
	for i := range got[0].ToolCalls {
		if got[0].ToolCalls[i].ID != s.call {
			continue
		}
		arguments, err := readArguments(got[0].ToolCalls[i].Function.Arguments)
		if err != nil {
			return ""
		}
		for _, name := range sorted(arguments) {
			text, ok := arguments[name].(string)
			if v := normal(text); ok && isWhole(v) && q.said.whole[v] {
				return v
			}
		}
	}
	return ""
}

// isSearch reports whether a word of a tool's name means that the tool searches. The results of such
// a tool are not a document that its arguments name.
func isSearch(word string) bool {
	return word == "search" || word == "find" || word == "query" || word == "list" || word == "lookup"
}

// guiding holds words by which a request leaves values to a document, as in "as described in x.txt".
var guiding = wordSet("accordingly according based stated described specified")

// delegates reports whether the request delegates to the document with the given name.
func (q *request) delegates(name string, d delegation) bool {
	for _, text := range q.texts {
		tokens := clauses(strings.ToLower(text))
		for i, t := range tokens {
			if t.word != name {
				continue
			}
			if d == toPay && isObject(tokens[:i]) ||
				d == toUpdate && slices.ContainsFunc(tokens, func(t token) bool { return guiding[t.word] }) {
				return true
			}
		}
	}
	return false
}

// determiners are words between a verb and the document that is its object.
var determiners = wordSet("the a an this that my our your his her their attached following new latest in called named")

// isObject reports whether the name of a document is the object of the verb "pay" in a request.
// before holds the words before the name. Between the verb and the name, only determiners and words
// for bills and files are allowed, as in "pay the invoice".
func isObject(before []token) bool {
	for i := len(before) - 1; i >= 0; i-- {
		switch w := before[i].word; {
		case w == "pay":
			return before[i].begins && !slices.ContainsFunc(before[:i], func(t token) bool { return doubting[t.word] }) &&
				(i == 0 || requesting[before[i-1].word] || !openings[before[i-1].word])
		case !determiners[w] && topics[w]&(money|files) == 0:
			return false
		}
	}
	return false
}

var (
	// requesting holds words before a verb by which the user asks for something.
	requesting = wordSet("please and then to also now you just kindly first finally next")
	// doubting holds words of questions and conditions, such as "did you pay".
	doubting = wordSet("did have has had was were do does if unless when whether why how who not don't never without")
)

// onlyAccount reports whether value is the only account number in text, and a field of text.
func onlyAccount(text, value string) bool {
	number := compact(value)
	all := accountNumbers(strings.ToLower(text))
	return len(all) == 1 && all[number] && plain(value) && slices.ContainsFunc(fieldsOf(text), func(f field) bool {
		return compact(f.text) == number
	})
}

// hasNumbers reports whether text contains all numbers in the JSON value v.
func hasNumbers(text string, v any) bool {
	switch v := v.(type) {
	case values.Number:
		return hasNumber(text, string(v))
	case string:
		return asNumber(v) == "" || hasNumber(text, v)
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !hasNumbers(text, item) })
	case map[string]any:
		for _, item := range v {
			if !hasNumbers(text, item) {
				return false
			}
		}
	}
	return true
}

// hasNumber reports whether one of the words of text is the number n.
func hasNumber(text, n string) bool {
	n = asNumber(n)
	return slices.ContainsFunc(strings.Fields(text), func(w string) bool { return n != "" && asNumber(w) == n })
}

// asNumber returns the amount v without a currency sign, commas and trailing zeros, or "" if v is not
// an amount.
func asNumber(v string) string {
	v = strings.ReplaceAll(strings.Trim(v, " $€£¥,;:()"), ",", "")
	whole, cents, _ := strings.Cut(strings.TrimSuffix(v, "."), ".")
	if !digits(whole) || cents != "" && !digits(cents) {
		return ""
	}
	return strings.TrimRight(whole+"."+strings.TrimRight(cents, "0"), ".")
}

// hasDetail reports whether value is a field of text, or a part of a field between commas. A label
// with several values in text does not count.
func hasDetail(text, value string) bool {
	value = normal(value)
	if !plain(value) {
		return false
	}
	fields := fieldsOf(text)
	for _, f := range fields {
		if f.key != "" && slices.ContainsFunc(fields, func(g field) bool { return g.key == f.key && g.text != f.text }) {
			continue
		}
		if normal(f.text) == value || slices.ContainsFunc(strings.Split(f.text, ","), func(part string) bool {
			return normal(part) == value
		}) {
			return true
		}
	}
	return false
}

// maxFieldWords is the maximum number of words in a field of a text, and in the label of a field.
// Longer lines count as prose.
const maxFieldWords = 8

// fieldsOf returns the fields of a text: its short lines, split into labels and values. A line that
// contains a sentence is not a field.
func fieldsOf(text string) []field {
	var out []field
	for line := range strings.Lines(text) {
		label, value, ok := strings.Cut(line, ":")
		if !ok {
			label, value = "", line
		}
		value = strings.TrimSpace(value)
		if value != "" && len(split(label)) <= maxFieldWords && len(split(value)) <= maxFieldWords &&
			!strings.ContainsAny(label+value[len(value)-1:], ".!?") {
			out = append(out, field{normal(label), value})
		}
	}
	return out
}

// accountNumbers returns the account numbers in text, without the spaces and hyphens in them. text is
// in lower case. The result may include other numbers, such as telephone numbers. A text with a
// single result therefore contains no other number that could be an account.
func accountNumbers(text string) map[string]bool {
	out := map[string]bool{}
	for text != "" {
		var groups []string
		groups, text = nextNumber(text)
		number := strings.Join(groups, "")
		figures := 0
		for _, c := range number {
			if unicode.IsDigit(c) {
				figures++
			}
		}
		if len(number) >= minAccount && figures >= minDigits && !isDate(groups) {
			out[number] = true
		}
	}
	return out
}

// nextNumber returns the groups of the first number in text, and the text after it. A group is a
// word with a digit; one space or hyphen separates it from the next group.
func nextNumber(text string) (groups []string, rest string) {
	inWord := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
	notInWord := func(c rune) bool { return !inWord(c) }
	text = strings.TrimLeftFunc(text, notInWord)
	for {
		rest = strings.TrimLeftFunc(text, inWord)
		group := text[:len(text)-len(rest)]
		switch {
		case strings.ContainsFunc(group, unicode.IsDigit):
			groups = append(groups, group)
		case len(groups) == 0:
			return nil, rest
		default:
			return groups, text
		}
		if rest == "" || rest[0] != ' ' && rest[0] != '-' {
			return groups, rest
		}
		text = rest[1:]
	}
}

// isDate reports whether the groups of a number are those of a date, such as 2024-05-31.
func isDate(groups []string) bool {
	if len(groups) != 3 || groups[1] > "12" {
		return false
	}
	shape := len(groups[0])*100 + len(groups[1])*10 + len(groups[2])
	return (shape == 422 || shape == 224) && digits(strings.Join(groups, ""))
}
