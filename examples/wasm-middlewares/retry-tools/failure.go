package main

import (
	"errors"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// passing is what errors say that may pass.
var passing = regexp.MustCompile(`(?i)\btime[d -]{0,2}out\b|deadline exceeded|temporar|connection (?:reset|refused|closed)|broken pipe|unexpected EOF|` +
	`too many requests|rate.?limit|overloaded|unavailable|try again|\b(?:408|429|502|503|504)\b`)

// maxWhy is how much of an error is kept and told, in bytes.
const maxWhy = 300

// failure says why a call failed, empty if it did not, for how many milliseconds
// the tool wants to be left alone, and whether the failure may pass.
func (r *retry) failure(result *abi.Result, err error) (why string, wait int64, passes bool) {
	var e *abi.Error
	switch {
	case err == nil && (result == nil || !result.IsError):
		return "", 0, false
	case err == nil:
		why = result.Content.String()
		passes = r.When == whenAny || passing.MatchString(why)
	case errors.As(err, &e):
		why, wait = e.Error(), e.RetryAfterMS
		switch e.Code {
		case abi.CodeInvalid, abi.CodeDenied, abi.CodeNotFound, abi.CodeLimit:
			// It would be the same again, whatever the text says.
			return text(why), 0, false
		}
		passes = r.When == whenAny || e.Retryable || e.Code == abi.CodeUnavailable || slices.Contains([]int{408, 429, 502, 503, 504}, e.Status) || passing.MatchString(why)
	default:
		why = err.Error()
		passes = r.When == whenAny || passing.MatchString(why)
	}
	for _, m := range r.match {
		passes = passes || m.MatchString(why)
	}
	return text(why), wait, passes
}

// text is never empty, and not long.
func text(why string) string {
	if why == "" {
		return "an error without a text"
	}
	if len(why) <= maxWhy {
		return why
	}
	n := maxWhy
	for !utf8.RuneStart(why[n]) {
		n--
	}
	return why[:n] + "…"
}
