package main

import (
	"path"
	"regexp"
	"strings"
)

// asPath is what a tool opens that is given a text as a path: up to the first NUL, with
// slashes for backslashes, without dots and spaces at the ends of names, and without
// what goes there and back again.
func asPath(text string) string {
	if text == "" || !strings.ContainsAny(text, "/\\\x00") && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, " ") {
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

// asNumber is the number that a tool reads in a text, as [number] writes it.
func asNumber(text string) string {
	m := numeral.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	return number(strings.TrimPrefix(m[1], "+") + strings.ReplaceAll(m[2], "_", ""))
}
