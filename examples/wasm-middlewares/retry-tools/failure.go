package main

import (
	"errors"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// passing matches error texts of transient failures.
var passing = regexp.MustCompile(
	`(?i)\btime[d -]{0,2}out\b|deadline exceeded|temporar|connection (?:reset|refused|closed)|broken pipe|unexpected EOF|` +
		`too many requests|rate.?limit|overloaded|unavailable|try again|\b(?:408|429|502|503|504)\b`,
)

// maxReason is the maximum size of a stored error text, in bytes.
const maxReason = 300

// failure classifies the result of a call. reason is the error text, or "" if the call succeeded;
// wait is the delay in milliseconds that the tool asks for; and passes reports whether the failure
// is transient.
func (r *retry) failure(result *abi.Result, err error) (reason string, wait int64, passes bool) {
	var e *abi.Error
	switch {
	case err == nil && (result == nil || !result.IsError):
		return "", 0, false
	case err == nil:
		reason = result.Content.String()
		passes = r.When == whenAny || passing.MatchString(reason)
	case errors.As(err, &e):
		reason, wait = e.Error(), e.RetryAfterMS
		switch e.Code {
		case abi.CodeInvalid, abi.CodeDenied, abi.CodeNotFound, abi.CodeLimit:
			// These errors are permanent, whatever their text.
			return text(reason), 0, false
		}
		passes = r.When == whenAny || e.Retryable || e.Code == abi.CodeUnavailable ||
			slices.Contains([]int{408, 429, 502, 503, 504}, e.Status) ||
			passing.MatchString(reason)
	default:
		reason = err.Error()
		passes = r.When == whenAny || passing.MatchString(reason)
	}
	for _, m := range r.match {
		passes = passes || m.MatchString(reason)
	}
	return text(reason), wait, passes
}

// text returns reason, cut to maxReason bytes and an ellipsis, or a placeholder if it is empty.
func text(reason string) string {
	if reason == "" {
		return "an error without a text"
	}
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n] + "…"
}
