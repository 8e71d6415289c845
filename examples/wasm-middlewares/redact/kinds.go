package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Strategies: replacements of a match.
const (
	strategyRedact = "redact" // [REDACTED_EMAIL]
	strategyMask   = "mask"   // ***@***.***, with the last four digits of a card number or IBAN
	strategyHash   = "hash"   // [EMAIL_bf768bfdaa86], the same for the same value
	strategyToken  = "token"  // <EMAIL_1>, the same for the same value; replaced by the value for tools and the user
	strategyBlock  = "block"  // the containing text is rejected
)

// builtIn holds the kinds that need no pattern.
var builtIn = map[string]detector{
	"email":       email{},
	"credit_card": card{},
	"ip":          ip{},
	"iban":        iban{},
}

// A pattern is a custom kind.
type pattern struct {
	Name    string `json:"name" doc:"of the kind: lower-case letters, digits and _"`
	Pattern string `json:"pattern" doc:"a regular expression (RE2)"`
}

var nameOfPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// newScanner creates a scanner from a configuration, or returns a configuration error.
func newScanner(r *redact) (scanner, error) {
	s := scanner{decode: r.Decode}
	for i, name := range r.Detect {
		at := middleware.Sprintf("detect[%d]", i)
		d, ok := builtIn[name]
		if !ok {
			return s, invalid("%s: %q is not one of email, credit_card, ip, iban; patterns takes others", at, name)
		}
		if err := s.add(r, at, name, d); err != nil {
			return s, err
		}
	}
	for i, p := range r.Patterns {
		at := middleware.Sprintf("patterns[%d]", i)
		if p == nil || !nameOfPattern.MatchString(p.Name) || builtIn[p.Name] != nil {
			return s, invalid("%s.name: want lower-case letters, digits and _, and none of email, credit_card, ip, iban", at)
		}
		d, err := newCustom(p.Pattern)
		if err != nil {
			return s, invalid("%s.pattern: %v", at, err)
		}
		if err := s.add(r, at, p.Name, d); err != nil {
			return s, err
		}
	}
	for name := range r.Strategies {
		if !slices.ContainsFunc(s.kinds, func(k *kind) bool { return k.name == name }) {
			return s, invalid("strategies.%s: no such kind is looked for", name)
		}
	}
	return s, nil
}

// add adds the kind of the given name, which d detects, with the strategy that the configuration r
// has for it. at is the configuration key of the kind, for errors.
func (s *scanner) add(r *redact, at, name string, d detector) error {
	if slices.ContainsFunc(s.kinds, func(k *kind) bool { return k.name == name }) {
		return invalid("%s: %s is duplicated", at, name)
	}
	strategy, where := r.Strategy, "strategy"
	if own, ok := r.Strategies[name]; ok {
		strategy, where = own, "strategies."+name
	}
	k := &kind{detector: d, name: name}
	label := strings.ToUpper(name)
	number := numeric(label)
	switch strategy {
	case strategyRedact:
		if r.Reversible {
			k.token, k.exact = label, true
			k.replace = func(match string) string { return r.book.placeholder(label, match) }
			break
		}
		k.replace = func(string) string { return "[REDACTED_" + label + "]" }
	case strategyMask:
		keep := 0
		if number {
			keep = 4
		}
		k.replace = func(match string) string { return mask(match, keep) }
	case strategyHash:
		k.replace = func(match string) string { return "[" + label + "_" + hash(r.Salt, canonical(match, number)) + "]" }
	case strategyToken:
		if r.Reversible {
			return invalid("%s: token has tokens of its own; with reversible, use redact", where)
		}
		k.token = label
		k.replace = func(match string) string { return r.vault.token(label, match) }
	case strategyBlock:
		k.blocks = true
		k.replace = func(string) string { return block + label + "]" }
	default:
		return invalid("%s: %q is not one of redact, mask, hash, token, block", where, strategy)
	}
	s.kinds = append(s.kinds, k)
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// mask returns match with asterisks in place of letters and digits. It preserves the last ones, as
// many as keep specifies.
func mask(match string, keep int) string {
	var total, seen int
	for _, c := range match {
		if plain(c) {
			total++
		}
	}
	return strings.Map(func(c rune) rune {
		if !plain(c) {
			return c
		}
		if seen++; seen > total-keep {
			return c
		}
		return '*'
	}, match)
}

// canonical returns the same string for all spellings of the value match. In a number, spaces and
// hyphens do not count.
func canonical(match string, number bool) string {
	if number {
		match = strings.NewReplacer(" ", "", "-", "").Replace(match)
	}
	return strings.ToLower(match)
}

func hash(salt, value string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(value))
	return middleware.Sprintf("%x", h.Sum(nil)[:6])
}

func plain(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
