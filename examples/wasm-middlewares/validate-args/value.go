package main

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// kind returns the JSON Schema type of a value.
func kind(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case values.Number:
		if whole(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// whole reports whether a number has no fraction, regardless of its spelling.
func whole(n values.Number) bool {
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(string(n), 64)
	return err == nil && f == math.Trunc(f)
}

// number returns a number as a float, infinite if out of range. ok is false if value is not
// a number.
func number(value any) (f float64, ok bool) {
	n, ok := value.(values.Number)
	if !ok {
		return 0, false
	}
	f, _ = strconv.ParseFloat(string(n), 64)
	return f, true
}

// types checks the type of a value, and reports whether to check further keywords.
func (c *checker) types(s map[string]any, value any, at place) bool {
	if s["nullable"] == true && value == nil {
		return false // nullable is a keyword of OpenAPI
	}
	want, ok := s["type"]
	if !ok {
		return true
	}
	names := textsOf(want)
	if len(names) == 0 {
		c.schema("type: want the name of a type, or a list of them, not %s", show(want))
		return true
	}
	is := kind(value)
	for _, name := range names {
		if !c.spend(1) {
			return false
		}
		switch name {
		case "null", "boolean", "string", "number", "integer", "array", "object":
		default:
			c.schema("type: %q is no type", clip(name))
			return true
		}
		if name == is || name == "number" && is == "integer" {
			return true
		}
	}
	c.note(at, "want %s, got %s %s", clip(strings.Join(names[:min(len(names), 7)], " or ")), is, show(value))
	return false
}

// textsOf returns the strings in a list, or a single string as a list.
func textsOf(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				out = append(out, s)
			}
		}
		return out
	default:
		return nil
	}
}

// among checks enum and const.
func (c *checker) among(s map[string]any, value any, at place) {
	list, some := s["enum"].([]any)
	want, one := s["const"]
	if !some && !one {
		return
	}
	key := c.canonical(value)
	if some && !slices.ContainsFunc(list, func(v any) bool { return c.canonical(v) == key }) {
		texts := make([]string, 0, 20)
		for _, v := range list[:min(len(list), cap(texts))] {
			texts = append(texts, show(v))
		}
		c.note(at, "want one of %s, got %s", clip(strings.Join(texts, ", ")), show(value))
	}
	if one && c.canonical(want) != key {
		c.note(at, "want %s, got %s", show(want), show(value))
	}
}

// text checks the length and the pattern of a string.
func (c *checker) text(s map[string]any, value string, at place) {
	n := float64(utf8.RuneCountInString(value))
	if minimum, ok := number(s["minLength"]); ok && n < minimum {
		c.note(at, "has %v characters, fewer than %v", n, s["minLength"])
	}
	if limit, ok := number(s["maxLength"]); ok && n > limit {
		c.note(at, "has %v characters, more than %v", n, s["maxLength"])
	}
	pattern, ok := s["pattern"].(string)
	if !ok {
		return
	}
	if matches, sure := c.matches(pattern, value); sure && !matches {
		c.note(at, "%s does not match the pattern %s", show(value), clip(pattern))
	}
}

// matches reports whether a pattern matches text. JSON Schema patterns have JavaScript's syntax,
// and most have the same meaning in RE2. sure is false if the pattern cannot be applied.
func (c *checker) matches(pattern, text string) (matches, sure bool) {
	re, known := c.patterns[pattern]
	if !known {
		if c.patterns == nil {
			c.patterns = map[string]*regexp.Regexp{}
		}
		var err error
		if len(pattern) > maxPattern {
			err = middleware.Errorf("it has more than %d bytes", maxPattern)
		} else if c.spend(len(pattern)) {
			re, err = regexp.Compile(pattern)
		}
		if err != nil {
			c.schema("pattern %s: %w", clip(pattern), err)
			re = nil
		}
		c.patterns[pattern] = re
	}
	if re == nil {
		c.schema("pattern %s cannot be applied", clip(pattern))
		return false, false
	}
	if !c.spend(len(text) / 64) {
		return false, false
	}
	return re.MatchString(text), true
}

func (c *checker) number(s map[string]any, value values.Number, at place) {
	n, _ := number(value)
	for _, l := range []struct {
		name  string
		text  string
		wrong func(limit float64) bool
	}{
		{"minimum", "is below", func(l float64) bool { return n < l || n == l && s["exclusiveMinimum"] == true }},
		{"maximum", "is above", func(l float64) bool { return n > l || n == l && s["exclusiveMaximum"] == true }},
		{"exclusiveMinimum", "is not above", func(l float64) bool { return n <= l }},
		{"exclusiveMaximum", "is not below", func(l float64) bool { return n >= l }},
	} {
		if limit, ok := number(s[l.name]); ok && l.wrong(limit) {
			c.note(at, "%v %s %v", value, l.text, s[l.name])
		}
	}
	if step, ok := number(s["multipleOf"]); ok && step > 0 {
		if q := n / step; math.Abs(q-math.Round(q)) > 1e-9*math.Max(1, math.Abs(q)) {
			c.note(at, "%v is no multiple of %v", value, s["multipleOf"])
		}
	}
}

// canonical returns the same string for equal values: it compares numbers by value, and objects
// regardless of the order of their keys. It spends a step for each value.
func (c *checker) canonical(value any) string {
	b, err := json.Marshal(c.plain(value))
	if err != nil {
		return middleware.Sprintf("%v", value)
	}
	return string(b)
}

func (c *checker) plain(value any) any {
	if !c.spend(1) {
		return nil
	}
	switch v := value.(type) {
	case values.Number:
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && strings.ContainsAny(string(v), ".eE") || v == "-0" {
			if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				return values.Number(strconv.FormatInt(int64(f), 10))
			}
			return f
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.plain(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = c.plain(v[key])
		}
		return out
	default:
		return value
	}
}

// show formats a value for the model. For lists and objects it gives only the size.
func show(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(clip(v))
	case []any:
		return middleware.Sprintf("[%d items]", len(v))
	case map[string]any:
		return middleware.Sprintf("{%d properties}", len(v))
	default:
		return clip(middleware.Sprintf("%v", v))
	}
}

func clip(text string) string {
	const limit = 120
	if len(text) <= limit {
		return text
	}
	n := limit
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
