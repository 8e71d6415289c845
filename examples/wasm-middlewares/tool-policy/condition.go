package main

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
)

// A condition is a pattern for the values at a path in a call's arguments.
type condition struct {
	Path    string `json:"path" doc:"keys separated by dots, * for any key or item; a path that ends at an object or a list means every value in it, no path all values"`
	Pattern string `json:"pattern" doc:"a regular expression (RE2) that must match somewhere in the value"`

	keys    []string
	pattern *regexp.Regexp
}

func (c *condition) compile(at string) (err error) {
	if c.Path != "" {
		c.keys = strings.Split(c.Path, ".")
	}
	if slices.Contains(c.keys, "") {
		return invalid("%s.path: %q has an empty key; want keys separated by single dots", at, c.Path)
	}
	if c.Pattern == "" {
		return invalid("%s.pattern: want a pattern for the value; . matches any value that is not empty", at)
	}
	if c.pattern, err = regexp.Compile(c.Pattern); err != nil {
		return invalid("%s.pattern: %v", at, err)
	}
	return nil
}

// all reports whether there is at least one value and the pattern matches all of them.
func (c *condition) all(texts []string) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(v string) bool { return !c.pattern.MatchString(v) })
}

// decode parses arguments. It fails if they are not a JSON object. Empty arguments are an empty
// object.
func decode(arguments string) (any, error) {
	if arguments == "" {
		return map[string]any{}, nil
	}
	value, err := values.Read([]byte(arguments))
	if _, ok := value.(map[string]any); !ok && err == nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "want a JSON object"}
	}
	return value, err
}

// at returns the values at a path, as strings. Keys are compared case-insensitively, because
// some tools read "Path" as "path".
func at(value any, path []string) []string {
	key, rest := "*", path
	if len(path) > 0 {
		key, rest = path[0], path[1:]
	}
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for k, item := range v {
			if key == "*" || strings.EqualFold(key, k) {
				out = append(out, at(item, rest)...)
			}
		}
	case []any:
		for i, item := range v {
			if key == "*" || key == strconv.Itoa(i) {
				out = append(out, at(item, rest)...)
			}
		}
	default:
		if len(path) == 0 {
			out = append(out, text(value))
		}
	}
	return out
}

// text formats a scalar for patterns: a string unchanged, a number as [number] does, and any other
// value as in JSON.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case values.Number:
		return number(string(v))
	case bool:
		return strconv.FormatBool(v)
	default:
		return "null"
	}
}

// number returns the same spelling for all literals of a number, so that 1e2 does not pass
// where 100 would not. Whole numbers stay exact.
func number(literal string) string {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			return "0"
		}
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil: // out of range for tools, too
		return literal
	case f == 0:
		return "0"
	case math.Abs(f) < 1e-9 || math.Abs(f) >= 1e21:
		return strconv.FormatFloat(f, 'g', -1, 64)
	default:
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
}
