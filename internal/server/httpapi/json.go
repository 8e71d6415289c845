package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
)

// WriteJSON writes a value as JSON in the format of all responses.
var WriteJSON = huma.DefaultJSONFormat.Marshal

// maxDepth limits the nesting of JSON bodies.
const maxDepth = 64

// DecodeJSON decodes JSON into v. It fails if b is not UTF-8 or is nested deeper than maxDepth.
func DecodeJSON(b []byte, v any) error {
	if !utf8.Valid(b) {
		return errors.New("the body is not UTF-8")
	}
	if err := checkDepth(b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// checkDepth rejects JSON that is nested deeper than maxDepth.
func checkDepth(b []byte) error {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the body is nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// ReadJSONBody reads a body. It rejects content types other than JSON; a request without a content
// type passes.
func ReadJSONBody(req *http.Request) ([]byte, error) {
	if kind, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";"); kind != "" &&
		!strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, NewProblem(api.CodeMediaType, "the body is %.80q; want application/json", kind)
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, readError(err)
	}
	return b, nil
}

// readError returns the error for a body that could not be read: err itself if the body is too
// large, or else a problem.
func readError(err error) error {
	var size *http.MaxBytesError
	if errors.As(err, &size) {
		return err
	}
	return NewProblem(api.CodeInvalid, "read the body: %v", err)
}
