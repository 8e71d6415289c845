package httpapi

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

// checkPath rejects URLs that other programs may interpret differently.
func checkPath(r *http.Request) error {
	for _, part := range []string{r.URL.Path, r.URL.RawQuery} {
		if !utf8.ValidString(part) || strings.ContainsFunc(part, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return &Problem{Type: ProblemType + CodeInvalid, Title: titles[CodeInvalid].title, Status: http.StatusBadRequest,
				Detail: "the URL has invalid characters"}
		}
	}
	for name, values := range r.URL.Query() {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return &Problem{Type: ProblemType + CodeInvalid, Title: titles[CodeInvalid].title, Status: http.StatusBadRequest,
					Detail: "a query parameter is not UTF-8"}
			}
		}
	}
	return nil
}

// checkEncoding rejects compressed bodies: a small one could expand without limit.
func checkEncoding(r *http.Request) error {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return NewProblem(CodeMediaType, "the body has the content encoding %.40q; send it unencoded", coding)
		}
	}
	return nil
}
