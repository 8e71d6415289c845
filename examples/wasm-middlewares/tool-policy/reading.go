package main

import (
	"path"
	"regexp"
	"strings"
)

// asPath returns the path that a tool would open for text: up to the first NUL, with
// backslashes replaced by slashes, without trailing dots and spaces in names, and cleaned of
// . and .. elements.
func asPath(text string) string {
	if text == "" ||
		!strings.ContainsAny(text, "/\\\x00") && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, " ") {
		return text
	}
	text, _, _ = strings.Cut(text, "\x00")
	names := strings.Split(strings.ReplaceAll(text, `\`, "/"), "/")
	for i, name := range names {
		if name != "." && name != ".." {
			names[i] = strings.TrimRight(name, ". ")
		}
	}
	return path.Clean(strings.Join(names, "/"))
}

var numeral = regexp.MustCompile(`^\s*([-+]?)0*([0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?)\s*$`)

// asNumber returns the number that a tool would parse from text, as [number] spells it, or
// text itself if it is not a number.
func asNumber(text string) string {
	m := numeral.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	return number(strings.TrimPrefix(m[1], "+") + strings.ReplaceAll(m[2], "_", ""))
}
