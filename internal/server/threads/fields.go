package threads

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// Limits on the metadata of a thread.
const (
	maxMetadata = 16
	maxName     = 64  // bytes
	maxValue    = 512 // bytes
)

// checkFields fails with a problem if a title or a subject has control characters or is not UTF-8,
// or if the metadata exceeds a limit. Nil fields are not checked.
func checkFields(title, subject *string, metadata map[string]string) error {
	for name, text := range map[string]*string{"title": title, "subject": subject} {
		if text != nil && !isLine(*text) {
			return httpapi.NewProblem(api.CodeInvalid, "%s must be one line of UTF-8 without control characters", name)
		}
	}
	if len(metadata) > maxMetadata {
		return httpapi.NewProblem(
			api.CodeInvalid,
			"metadata has %d entries; at most %d are allowed",
			len(metadata),
			maxMetadata,
		)
	}
	for name, value := range metadata {
		switch {
		case name == "" || len(name) > maxName || !isLine(name) || strings.Contains(name, ":"):
			return httpapi.NewProblem(api.CodeInvalid,
				"metadata has the name %.80q; want up to %d bytes of UTF-8 without control characters and colons", name, maxName)
		case len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			return httpapi.NewProblem(api.CodeInvalid,
				"metadata[%.80q] is not UTF-8, has a zero byte, or more than %d bytes", name, maxValue)
		}
	}
	return nil
}

// isLine reports whether text is UTF-8 without control characters and line separators.
func isLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}
