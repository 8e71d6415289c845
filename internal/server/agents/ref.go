package agents

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Ref names a version of an agent in a request.
type Ref struct{ store.AgentRef }

// aliasName matches the names of aliases. The rules for names of agents apply to them, but numbers
// are not allowed, because these are versions.
var aliasName = regexp.MustCompile(`^[a-z0-9._-]{0,62}[a-z._-][a-z0-9._-]{0,62}$`)

// ParseRef parses a reference to an agent: NAME, NAME@VERSION or NAME@ALIAS. version is the version
// that the request names in another field, or 0. ParseRef fails with a [*httpapi.Problem] if the
// reference is invalid, or if it names a version and version is not 0.
func ParseRef(text string, version int64) (Ref, error) {
	name, which, found := strings.Cut(text, "@")
	ref := Ref{store.AgentRef{Name: name, Version: version}}
	if !found {
		return ref, nil
	}
	number, err := strconv.ParseInt(which, 10, 64)
	switch {
	case version != 0:
		return ref, httpapi.NewProblem(api.CodeInvalid,
			"agent %.80q names a version, and so does version; send one of them", text)
	case err == nil && number > 0:
		ref.Version = number
	case len(which) <= 63 && store.Name.MatchString(which) && aliasName.MatchString(which):
		ref.Alias = which
	default:
		return ref, httpapi.NewProblem(api.CodeInvalid,
			"agent is %.80q; want a name, name@version or name@alias, such as clerk@3 or clerk@stable", text)
	}
	return ref, nil
}
