package httpapi

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/host/api"
)

// checkPath rejects URLs with control characters or invalid UTF-8, which other programs may
// interpret differently.
func checkPath(r *http.Request) error {
	for _, part := range []string{r.URL.Path, r.URL.RawQuery} {
		if !utf8.ValidString(part) || strings.ContainsFunc(part, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return badRequest("the URL has invalid characters")
		}
	}
	for name, values := range r.URL.Query() {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return badRequest("a query parameter is not UTF-8")
			}
		}
	}
	return nil
}

// checkEncoding rejects compressed bodies: a small one could expand without limit.
func checkEncoding(r *http.Request) error {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return NewProblem(api.CodeMediaType, "the body has the content encoding %.40q; send it unencoded", coding)
		}
	}
	return nil
}

// checkUpgrade rejects WebSockets with status 426. After this status, clients of model APIs, such
// as Codex, use HTTP at once.
func checkUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil
	}
	p := NewProblem(api.CodeInvalid, "the server does not speak WebSocket; use HTTP")
	p.Status = http.StatusUpgradeRequired
	return p
}

// badRequest returns a problem with status 400.
func badRequest(detail string) *Problem {
	p := NewProblem(api.CodeInvalid, "%s", detail)
	p.Status = http.StatusBadRequest
	return p
}
