package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Limits for schemas, which may come from untrusted tools.
const (
	maxSteps   = 200_000 // comparisons of values with schemas, and of values with each other
	maxInner   = 200     // nesting of schemas, including references
	maxPattern = 1000    // size of a regular expression in bytes
)

// A checker compares a value with a schema, and collects the mistakes in the value and the first
// error in the schema.
type checker struct {
	root     any
	closed   bool
	limit    int // maximum number of mistakes
	left     int // remaining steps
	depth    int
	mistakes []mistake
	patterns map[string]*regexp.Regexp // compiled patterns by their text; nil for one that cannot be applied

	over  string // why the check was aborted
	wrong error  // the first error in the schema
}

// end aborts the check, and records the reason unless an earlier one is recorded.
func (c *checker) end(reason string) {
	if c.left = 0; c.over == "" {
		c.over = reason
	}
}

// spend consumes steps, and reports whether any are left.
func (c *checker) spend(steps int) bool {
	if c.left -= steps; c.left <= 0 {
		c.end("they, or their schema, are too large")
	}
	return c.left > 0
}

// schema records an error in the schema, unless an earlier one is recorded.
func (c *checker) schema(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = middleware.Errorf(format, args...)
	}
}

// A mistake describes a value that does not fit its schema.
type mistake struct {
	at   place
	text string
}

func (m mistake) String() string {
	if m.at.path == "" {
		return m.text
	}
	return m.at.path + ": " + m.text
}

// A place is the path of a value in the arguments.
type place struct{ path string }

func (p place) key(key string) place {
	plain := key != "" && !strings.ContainsFunc(key, func(c rune) bool {
		return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
	switch {
	case !plain:
		return place{p.path + "[" + strconv.Quote(clip(key)) + "]"}
	case p.path == "":
		return place{key}
	default:
		return place{p.path + "." + key}
	}
}

func (p place) item(i int) place { return place{middleware.Sprintf("%s[%d]", p.path, i)} }

func (c *checker) note(at place, format string, args ...any) {
	if len(c.mistakes) < c.limit {
		c.mistakes = append(c.mistakes, mistake{at, middleware.Sprintf(format, args...)})
	}
}

// check compares a value with a schema, and records mistakes in the value and errors in the
// schema.
func (c *checker) check(schema, value any, at place) {
	if len(c.mistakes) >= c.limit || !c.spend(1) {
		return
	}
	if c.depth == maxInner {
		c.end("their schema is nested too deeply, or refers to itself")
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	switch s := schema.(type) {
	case bool:
		if !s {
			c.note(at, "is not allowed")
		}
	case map[string]any:
		c.object(s, value, at)
	default:
		c.schema("a schema is an object or a boolean, not %s", kind(schema))
	}
}

func (c *checker) object(s map[string]any, value any, at place) {
	if ref, ok := s["$ref"]; ok {
		target, err := c.resolve(ref)
		if err != nil {
			c.schema("%w", err)
		} else {
			c.check(target, value, at)
		}
	}
	if !c.types(s, value, at) {
		return // further mistakes for another type would not help
	}
	c.among(s, value, at)
	switch v := value.(type) {
	case string:
		c.text(s, v, at)
	case []any:
		c.list(s, v, at)
	case map[string]any:
		c.members(s, v, at)
	case values.Number:
		c.number(s, v, at)
	}
	c.combined(s, value, at)
}

// resolve returns the target of a reference within the schema.
func (c *checker) resolve(ref any) (any, error) {
	text, ok := ref.(string)
	pointer, local := strings.CutPrefix(text, "#")
	if !ok || !local || pointer != "" && pointer[0] != '/' || !c.spend(1+len(pointer)/8) {
		return nil, middleware.Errorf("$ref %s leads out of the schema, or to a name; want #/…", show(ref))
	}
	at := c.root
	for _, part := range strings.Split(pointer, "/")[min(1, len(pointer)):] {
		if part == "" && pointer == "" {
			break
		}
		key, ok := unescaped(part)
		if !ok {
			return nil, middleware.Errorf("$ref %s: want two hexadecimal digits behind each %%", clip(text))
		}
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at, ok = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if ok = err == nil && i >= 0 && i < len(v); ok {
				at = v[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, middleware.Errorf("$ref %s leads nowhere", clip(text))
		}
	}
	return at, nil
}

// unescaped decodes the percent escapes of a reference. ok is false if one is malformed.
func unescaped(text string) (plain string, ok bool) {
	var out []byte
	for {
		head, rest, found := strings.Cut(text, "%")
		out = append(out, head...)
		if !found {
			return string(out), true
		}
		if len(rest) < 2 {
			return "", false
		}
		n, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			return "", false
		}
		out, text = append(out, byte(n)), rest[2:]
	}
}

// try compares a value with a schema. It returns at most four mistakes instead of recording them.
// sure is false if the schema cannot be applied completely.
func (c *checker) try(schema, value any, at place) (mistakes []mistake, sure bool) {
	outer, limit, wrong := c.mistakes, c.limit, c.wrong
	c.mistakes, c.limit, c.wrong = nil, 4, nil
	c.check(schema, value, at)
	mistakes, sure = c.mistakes, c.wrong == nil && c.over == ""
	c.mistakes, c.limit = outer, limit
	if wrong != nil {
		c.wrong = wrong
	}
	return mistakes, sure
}

// combined applies the keywords that combine schemas.
func (c *checker) combined(s map[string]any, value any, at place) {
	for _, sub := range schemas(s["allOf"]) {
		c.check(sub, value, at)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		list := schemas(s[name])
		if len(list) == 0 {
			continue
		}
		switch fit, maybe, nearest := c.alternatives(list, value, at); {
		case fit+maybe == 0:
			c.note(at, "fits none of %d alternatives; of the nearest: %s", len(list), nearest)
		case fit > 1 && name == "oneOf":
			c.note(at, "fits %d alternatives, of which only one may fit", fit)
		}
	}
	if not, ok := s["not"]; ok {
		if mistakes, sure := c.try(not, value, at); sure && len(mistakes) == 0 {
			c.note(at, "%s is excluded", show(value))
		}
	}
	condition, ok := s["if"]
	if !ok {
		return
	}
	mistakes, sure := c.try(condition, value, at)
	branch := "then"
	if len(mistakes) > 0 {
		branch = "else"
	}
	if then, ok := s[branch]; ok && sure {
		c.check(then, value, at)
	}
}

// alternatives counts the schemas in list that value fits and those that it may fit. nearest
// describes the mistakes for the schema with the fewest.
func (c *checker) alternatives(list []any, value any, at place) (fit, maybe int, nearest string) {
	fewest := -1
	for _, sub := range list {
		mistakes, sure := c.try(sub, value, at)
		switch {
		case !sure:
			maybe++
		case len(mistakes) == 0:
			fit++
		case fewest < 0 || len(mistakes) < fewest:
			fewest = len(mistakes)
			texts := make([]string, len(mistakes))
			for i, m := range mistakes {
				texts[i] = m.String()
			}
			nearest = strings.Join(texts, ", ")
		}
	}
	return fit, maybe, nearest
}

// schemas returns list as a list of schemas, or nil if it is not an array.
func schemas(list any) []any {
	out, _ := list.([]any)
	return out
}

// members checks an object: its required properties, their number, and each property.
func (c *checker) members(s, value map[string]any, at place) {
	for _, name := range textsOf(s["required"]) {
		if _, ok := value[name]; !ok && c.spend(1) {
			c.note(at.key(name), "is required")
		}
	}
	if n, ok := number(s["minProperties"]); ok && float64(len(value)) < n {
		c.note(at, "has %d properties, fewer than %v", len(value), s["minProperties"])
	}
	if n, ok := number(s["maxProperties"]); ok && float64(len(value)) > n {
		c.note(at, "has %d properties, more than %v", len(value), s["maxProperties"])
	}
	if needs, ok := s["dependentRequired"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(needs)) {
			if _, there := value[name]; !there {
				continue
			}
			for _, other := range textsOf(needs[name]) {
				if _, there := value[other]; !there && c.spend(1) {
					c.note(at.key(other), "is required beside %s", name)
				}
			}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(value)) {
		c.member(s, properties, patterns, name, value[name], at)
	}
}

func (c *checker) member(s, properties, patterns map[string]any, name string, value any, at place) {
	if len(c.mistakes) >= c.limit || !c.spend(1+len(patterns)) {
		return
	}
	if naming, ok := s["propertyNames"]; ok {
		if mistakes, sure := c.try(naming, name, at); sure && len(mistakes) > 0 {
			c.note(at.key(name), "has a name that is not allowed: %s", mistakes[0].text)
		}
	}
	sub, known := properties[name]
	if known {
		c.check(sub, value, at.key(name))
	}
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		switch matches, sure := c.matches(pattern, name); {
		case !sure:
			known = true // the pattern may match
		case matches:
			known = true
			c.check(patterns[pattern], value, at.key(name))
		}
	}
	if known {
		return
	}
	others, says := s["additionalProperties"]
	if !says && c.closed && len(properties) > 0 && s["allOf"] == nil && s["anyOf"] == nil && s["oneOf"] == nil &&
		s["$ref"] == nil {
		others, says = false, true
	}
	if others == false {
		c.note(at.key(name), "is not known; want one of %s", clip(strings.Join(slices.Sorted(maps.Keys(properties)), ", ")))
		return
	}
	if !says {
		return
	}
	c.check(others, value, at.key(name))
}

// list checks an array: its length, its items, and whether they are unique.
func (c *checker) list(s map[string]any, value []any, at place) {
	if n, ok := number(s["minItems"]); ok && float64(len(value)) < n {
		c.note(at, "has %d items, fewer than %v", len(value), s["minItems"])
	}
	if n, ok := number(s["maxItems"]); ok && float64(len(value)) > n {
		c.note(at, "has %d items, more than %v", len(value), s["maxItems"])
	}
	if s["uniqueItems"] == true {
		seen := map[string]bool{}
		for i, item := range value {
			key := c.canonical(item)
			if seen[key] {
				c.note(at.item(i), "%s is duplicated", show(item))
			}
			seen[key] = true
		}
	}
	// In older drafts of JSON Schema, items can be a list of the schemas of the first items.
	first, items, rest := schemas(s["prefixItems"]), s["items"], true
	if list, ok := items.([]any); ok {
		first = list
		items, rest = s["additionalItems"], s["additionalItems"] != nil
	} else if items == nil {
		rest = false
	}
	for i, item := range value {
		sub := items
		switch {
		case i < len(first):
			sub = first[i]
		case !rest:
			continue
		}
		c.check(sub, item, at.item(i))
	}
	c.contained(s, value, at)
}

func (c *checker) contained(s map[string]any, value []any, at place) {
	want, ok := s["contains"]
	if !ok {
		return
	}
	found := 0
	for i, item := range value {
		mistakes, sure := c.try(want, item, at.item(i))
		if !sure {
			return
		}
		if len(mistakes) == 0 {
			found++
		}
	}
	minimum, ok := number(s["minContains"])
	if !ok {
		minimum = 1
	}
	if float64(found) < minimum {
		c.note(at, "has %d items of the kind that it needs, fewer than %v", found, minimum)
	}
	if limit, ok := number(s["maxContains"]); ok && float64(found) > limit {
		c.note(at, "has %d items of a kind, more than %v", found, limit)
	}
}
