package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/redact"
)

// A Secret is a value that requests refer to as {{secret:NAME}}. Modules never see the value.
type Secret struct {
	Name  string   // 1 to 64 letters, digits, _ and -
	Value string   // 8 to 16384 bytes of UTF-8, without control characters except tabs
	Hosts []string // patterns of the hosts that the secret may be sent to, at least one; see [Pattern]
}

// Limits of secrets, in bytes unless noted.
const (
	minSecret     = 8 // shorter values occur in text by chance
	maxSecret     = 16 << 10
	maxSecretName = 64
	maxFilled     = 64 // number of secrets filled into one request
	maxDifferent  = 8  // number of different secrets in one request
)

const (
	opening = "{{secret:"
	closing = "}}"
)

type secret struct {
	name, value string
	hosts       []Pattern
	redacted    *redact.Secret
}

// parse validates a secret. Errors do not contain its value.
func (s *Secret) parse() (*secret, error) {
	if !ValidSecretName(s.Name) {
		return nil, fmt.Errorf("secret %q: want a name of letters, digits, _ and -, at most %d", short(s.Name), maxSecretName)
	}
	switch n := len(s.Value); {
	case n == 0:
		return nil, fmt.Errorf("secret %s is empty", s.Name)
	case n < minSecret:
		return nil, fmt.Errorf(
			"secret %s has fewer than %d bytes, so it could not be redacted from responses",
			s.Name,
			minSecret,
		)
	case n > maxSecret:
		return nil, fmt.Errorf("secret %s has more than %d bytes", s.Name, maxSecret)
	case !validValue(s.Value):
		return nil, fmt.Errorf(
			"secret %s has line breaks, control characters, or bytes that are not UTF-8; check for a line break at the end of the file",
			s.Name,
		)
	case strings.Contains(s.Value, opening):
		return nil, fmt.Errorf("secret %s holds %s itself", s.Name, opening)
	case len(s.Hosts) == 0:
		return nil, fmt.Errorf("secret %s names no host that it may be sent to", s.Name)
	}
	hosts, err := ParsePatterns(s.Hosts)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", s.Name, err)
	}
	return &secret{
		name:     s.Name,
		value:    s.Value,
		hosts:    hosts,
		redacted: redact.NewSecret(s.Value, opening+s.Name+closing),
	}, nil
}

// ValidSecretName reports whether s is a valid name of a secret.
func ValidSecretName(s string) bool {
	return s != "" && len(s) <= maxSecretName &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// A filler fills secrets into one request.
type filler struct {
	client *Client
	to     endpoint
	used   []*secret
	filled int
}

// fill replaces each {{secret:NAME}} in s with the value of the secret. If escape is not nil, fill
// applies it to each value. where names the part of the request in errors. The error is an
// *abi.Error.
func (f *filler) fill(where, s string, escape func(string) string) (string, error) {
	if !strings.Contains(s, opening) {
		return s, nil
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, opening)
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, closing)
		if !ok || !ValidSecretName(name) {
			return "", failed(abi.CodeInvalid, "%s: %s is not followed by a name and %s", where, opening, closing)
		}
		k, err := f.secret(where, name)
		if err != nil {
			return "", err
		}
		value := k.value
		if escape != nil {
			value = escape(value)
		}
		b.WriteString(value)
		s = after
	}
}

// secret returns the named secret and records its use. It fails if the secret may not be sent to
// f.to, or if the request would contain too many secrets.
func (f *filler) secret(where, name string) (*secret, error) {
	k := f.client.secrets[name]
	switch {
	case k == nil:
		return nil, failed(abi.CodeDenied, "%s: there is no secret %s for this agent", where, name)
	case !anyMatch(k.hosts, f.to):
		return nil, failed(
			abi.CodeDenied,
			"%s: secret %s is not for %s; the operator names the hosts of a secret",
			where,
			name,
			f.to,
		)
	case f.to.scheme != "https" && !f.client.isPrivate(f.to.host):
		return nil, failed(abi.CodeDenied, "%s: secret %s may be sent over https only", where, name)
	}
	if f.filled++; f.filled > maxFilled {
		return nil, failed(abi.CodeLimit, "more than %d secrets in one request", maxFilled)
	}
	for _, u := range f.used {
		if u == k {
			return k, nil
		}
	}
	if len(f.used) == maxDifferent {
		return nil, failed(abi.CodeLimit, "more than %d different secrets in one request", maxDifferent)
	}
	f.used = append(f.used, k)
	return k, nil
}

// url fills secrets into a URL, escaped for the path or the query.
func (f *filler) url(s string) (string, error) {
	path, query, has := strings.Cut(s, "?")
	path, err := f.fill("url", path, url.PathEscape)
	if err != nil || !has {
		return path, err
	}
	query, err = f.fill("url", query, url.QueryEscape)
	return path + "?" + query, err
}

// redact replaces the values of the secrets that were sent, in every canonical spelling, with
// references of the form {{secret:NAME}}. The error is an *abi.Error.
func (f *filler) redact(s string) (string, error) {
	if len(f.used) == 0 {
		return s, nil
	}
	secrets := make([]*redact.Secret, len(f.used))
	for i, k := range f.used {
		secrets[i] = k.redacted
	}
	out, err := redact.Text(s, secrets)
	if err != nil {
		return "", failed(abi.CodeLimit, "the answer of %s cannot be returned after a request with a secret: %v", f.to, err)
	}
	return out, nil
}

// isNamed reports whether a lower-case header name contains a secret.
func (f *filler) isNamed(header string) bool {
	for _, k := range f.used {
		if strings.Contains(header, strings.ToLower(k.value)) {
			return true
		}
	}
	return false
}

// slicing lists the request headers that ask a server for a part of a resource or for its
// difference from an earlier version. Redaction cannot find a part of a secret.
var slicing = map[string]bool{"range": true, "if-range": true, "a-im": true}

// checkSlicing rejects a request that contains a secret and asks for part of the response.
func (f *filler) checkSlicing(headers []abi.HTTPHeader) error {
	if len(f.used) == 0 {
		return nil
	}
	for _, h := range headers {
		if slicing[strings.ToLower(h.Name)] {
			return failed(
				abi.CodeDenied,
				"header %s is not allowed in a request with a secret: a secret cannot be found in part of a response; remove the header",
				short(h.Name),
			)
		}
	}
	return nil
}

func failed(code abi.Code, format string, args ...any) *abi.Error {
	return &abi.Error{Code: code, Message: "http: " + fmt.Sprintf(format, args...)}
}

// ParseSecret parses a secret in the form of the command line: NAME=env:VARIABLE@HOST, with further hosts after
// commas. It reads the value with getenv. It returns an error if s is malformed, the variable is empty or the secret
// is invalid. Errors do not contain the value.
func ParseSecret(s string, getenv func(string) string) (Secret, error) {
	const want = "want NAME=env:VARIABLE@HOST"
	name, rest, ok := strings.Cut(s, "=")
	variable, isEnv := strings.CutPrefix(rest, "env:")
	if !ok || !isEnv {
		return Secret{}, errors.New(want + "; put the value into the environment, not here")
	}
	variable, hosts, ok := strings.Cut(variable, "@")
	if !ok || variable == "" || hosts == "" {
		return Secret{}, fmt.Errorf("%s: %s, with the hosts that it is sent to", short(name), want)
	}
	value := getenv(variable)
	if value == "" {
		return Secret{}, fmt.Errorf(
			"the environment variable %s, for the secret %s, is not set",
			short(variable),
			short(name),
		)
	}
	out := Secret{Name: name, Value: value, Hosts: strings.Split(hosts, ",")}
	_, err := out.parse()
	return out, err
}
