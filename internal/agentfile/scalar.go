package agentfile

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/shlex"

	"github.com/agent-runner/agent-runner/host/tool/builtin"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

// The types of scalar values. Their UnmarshalText methods return errors that name the valid values.

// A Duration is a duration, written with units such as 30s, 1m30s or 500ms.
type Duration time.Duration

// UnmarshalText parses a positive duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("want a duration with its unit, such as 500ms, 30s or 2m, not %q", b)
	}
	*d = Duration(v)
	return nil
}

// Bytes is a size in bytes, written as 512KiB, 64MiB, 1GiB, or a number.
type Bytes int64

// UnmarshalText parses a positive size.
func (s *Bytes) UnmarshalText(b []byte) error {
	text, unit := string(b), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("want a size such as 512KiB, 64MiB, or a number of bytes, not %q", b)
	}
	*s = Bytes(n * unit)
	return nil
}

// A Path is the path of a file or directory. A relative path is relative to the directory of the
// file that contains it.
type Path string

// UnmarshalText reads a path.
func (p *Path) UnmarshalText(b []byte) error {
	if len(b) == 0 || strings.ContainsRune(string(b), 0) {
		return errors.New("want a path")
	}
	*p = Path(b)
	return nil
}

// A URL is an http or https URL.
type URL string

// UnmarshalText parses an http or https URL.
func (u *URL) UnmarshalText(b []byte) error {
	at, err := url.Parse(string(b))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("want a URL that starts with https:// or http://, not %q", b)
	}
	*u = URL(b)
	return nil
}

// A Command is a program and its arguments, written as a list or as one string.
type Command []string

// UnmarshalText splits a string into shell words, without expansion.
func (c *Command) UnmarshalText(b []byte) error {
	words, err := shlex.Split(string(b))
	switch {
	case err != nil:
		return fmt.Errorf("split the command: %w", err)
	case len(words) == 0:
		return errors.New("want a command")
	}
	*c = words
	return nil
}

// A Builtin is the name of a built-in tool.
type Builtin string

// UnmarshalText parses the name of a built-in tool.
func (n *Builtin) UnmarshalText(b []byte) error {
	return oneOf((*string)(n), string(b), "built-in tool", builtin.Names())
}

// An onFault is the consequence of a module's fault: "fail" or "skip".
type onFault hook.OnFault

var onFaults = []string{string(hook.Fail), string(hook.Skip)}

// UnmarshalText reads "fail" or "skip".
func (o *onFault) UnmarshalText(b []byte) error {
	return oneOf((*string)(o), string(b), "on_fault", onFaults)
}

// An onLimit is the behavior at a limit of steps or model calls.
type onLimit string

// An onToolLimit is the behavior at a limit of tool calls.
type onToolLimit string

var (
	onLimits     = []string{string(agent.LimitError), string(agent.LimitEnd), string(agent.LimitAnswer)}
	onToolLimits = append(slices.Clone(onLimits), string(agent.LimitRefuse))
)

// UnmarshalText reads "error", "end" or "answer".
func (o *onLimit) UnmarshalText(b []byte) error {
	return oneOf((*string)(o), string(b), "on_limit", onLimits)
}

// UnmarshalText reads "error", "end", "answer" or "refuse".
func (o *onToolLimit) UnmarshalText(b []byte) error {
	return oneOf((*string)(o), string(b), "on_tool_limit", onToolLimits)
}

// A Grant is a capability of a module, such as "read:last", "model", "tool:NAME", "http:HOST",
// "store", "set:model", "set:limits" or "set:labels".
type Grant string

// UnmarshalText reads a grant.
func (g *Grant) UnmarshalText(b []byte) error {
	if _, err := policy.ParseGrants([]string{string(b)}); err != nil {
		return err
	}
	*g = Grant(b)
	return nil
}

// oneOf sets *to to got if got is one of names. Otherwise it returns an error, in which what
// describes the names.
func oneOf(to *string, got, what string, names []string) error {
	if !slices.Contains(names, got) {
		return fmt.Errorf("unknown %s %q; %s", what, got, instead(got, names, "allowed:"))
	}
	*to = got
	return nil
}

// instead returns a hint for got, which is not one of names. The hint has the name that the user
// probably meant, if one is similar, and a list of all names. thereAre introduces the list.
func instead(got string, names []string, thereAre string) string {
	list := thereAre + " " + strings.Join(names, ", ")
	meant := suggest.Closest(got, names)
	for _, name := range names {
		if len(meant) == 0 && (len(got) > 3 && strings.HasPrefix(name, got) || strings.HasPrefix(got, name+"_")) {
			meant = []string{name}
		}
	}
	if len(meant) == 0 {
		return list
	}
	return fmt.Sprintf("did you mean %q? (%s)", meant[0], list)
}
