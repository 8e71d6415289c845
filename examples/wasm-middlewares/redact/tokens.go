package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// maxTokens is the maximum number of values with tokens per run. Further values are hidden
// permanently.
const maxTokens = 500

// tokened holds the values of tokens by the label of their kind, in the order of their
// numbers.
var tokened = middleware.Local[map[string][]string]("tokens")

// A vault holds the run's tokens for the duration of a hook. Without a context, it is empty and
// creates no tokens.
type vault struct {
	ctx      *middleware.Context
	values   map[string][]string
	numbers  map[string]int // numbers of tokens, by label and canonical value
	restored int            // the number of tokens replaced by values
	err      error          // the first error of the host
}

// unlock loads the vault for a hook, if some kind has tokens.
func (r *redact) unlock(ctx *middleware.Context) error {
	if r.vault = (vault{ctx: ctx}); len(r.labels) == 0 {
		return nil
	}
	values, _, err := tokened.Get(ctx)
	r.vault.know(values)
	return err
}

// know sets the vault's values, and numbers them by label and canonical value.
func (v *vault) know(values map[string][]string) {
	v.values, v.numbers = values, map[string]int{}
	for label, list := range values {
		for i, value := range list {
			v.numbers[keyOf(label, value)] = i + 1
		}
	}
}

func keyOf(label, value string) string { return label + " " + canonical(value, numeric(label)) }

func numeric(label string) bool { return label == "CREDIT_CARD" || label == "IBAN" }

// token returns the token of a value, which is the same for all its spellings. New tokens are
// stored atomically, because concurrent hooks must not assign one number twice. If the run has
// maxTokens tokens, or if storing fails, token returns a permanent replacement instead.
func (v *vault) token(label, value string) string {
	key := keyOf(label, value)
	if v.ctx != nil && v.numbers[key] == 0 && v.err == nil {
		v.err = tokened.Update(v.ctx, func(all map[string][]string) (map[string][]string, error) {
			if all == nil {
				all = map[string][]string{}
			}
			v.know(all)
			total := 0
			for _, list := range all {
				total += len(list)
			}
			if v.numbers[key] == 0 && total < maxTokens {
				all[label] = append(all[label], value)
				v.numbers[key] = len(all[label])
			}
			return all, nil
		})
	}
	if n := v.numbers[key]; n > 0 && v.err == nil {
		return "<" + label + "_" + strconv.Itoa(n) + ">"
	}
	return "[REDACTED_" + label + "]"
}

// value returns the value of a token, or the token itself if it is unknown.
func (v *vault) value(token string) string {
	label, number, _ := cutLast(strings.Trim(token, "<>"))
	n, err := strconv.Atoi(number)
	if list := v.values[label]; err == nil && n >= 1 && n <= len(list) {
		v.restored++
		return list[n-1]
	}
	return token
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '_')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// tokens finds the tokens of the kinds with the given labels. A token begins with the first of the
// brackets and ends with the second.
type tokens struct {
	labels   []string
	brackets string
}

// maxDigits is the maximum number of digits of a token's number.
const maxDigits = 3

// mayFind implements [detector].
func (t tokens) mayFind(s *survey) bool { return len(s.numbers) > 0 }

// find implements [detector].
func (t tokens) find(v *view) []span {
	text := v.text
	var out []span
	for i := nextByte(text, v.from, t.brackets[0]); i < len(text); i = nextByte(text, i+1, t.brackets[0]) {
		if end, _ := t.at(text, i); end > 0 {
			out = append(out, span{from: i, to: end})
			i = end - 1
		}
	}
	return out
}

// open implements [detector].
func (t tokens) open(text string, from int) int {
	i := strings.LastIndexByte(text[from:], t.brackets[0])
	if i < 0 {
		return len(text)
	}
	if _, open := t.at(text, from+i); open {
		return from + i
	}
	return len(text)
}

// at returns the end of the token that begins at i, or 0, and whether more text could
// complete one.
func (t tokens) at(text string, i int) (end int, open bool) {
	rest := text[i+1:]
	for _, label := range t.labels {
		number, ok := strings.CutPrefix(rest, label+"_")
		if !ok {
			open = open || strings.HasPrefix(label+"_", rest)
			continue
		}
		digits := 0
		for digits < len(number) && digits <= maxDigits && digit(number[digits]) {
			digits++
		}
		switch {
		case digits > maxDigits:
		case digits == len(number):
			open = true
		case digits > 0 && number[digits] == t.brackets[1]:
			return len(text) - len(number) + digits + 1, false
		}
	}
	return 0, open
}

// restorer returns a kind that replaces tokens with their values.
func (r *redact) restorer() *kind {
	return &kind{detector: tokens{r.labels, "<>"}, replace: func(match string) string { return r.vault.value(match) }}
}

// foreign returns a kind that alters lookalikes of tokens in text that the model did not
// write. Otherwise the author of the text could have the lookalikes replaced by another
// person's data.
func (r *redact) foreign() *kind {
	return &kind{detector: tokens{r.labels, "<>"}, replace: func(match string) string { return "< " + match[1:] }}
}

// block begins the replacement of blocked data. Text with such a replacement is rejected.
const block = "[BLOCKED_"

// blocked returns a blocked kind with matches, or "" if there is none.
func (s *scanner) blocked(found finds) string {
	i := slices.IndexFunc(s.kinds, func(k *kind) bool { return k.blocks && found[k.name] > 0 })
	if i < 0 {
		return ""
	}
	return s.kinds[i].name
}

// marked returns the blocked kind whose replacement is in text, or "" if there is none.
func (s *scanner) marked(text string) string {
	i := slices.IndexFunc(
		s.kinds,
		func(k *kind) bool { return k.blocks && strings.Contains(text, block+strings.ToUpper(k.name)+"]") },
	)
	if i < 0 {
		return ""
	}
	return s.kinds[i].name
}
