package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/golden"
)

// identifier matches names of hooks and events that have several words. A name of one word, such as
// observe or message, could also be plain English.
var identifier = regexp.MustCompile(`[a-z]+(?:_[a-z]+)+`)

// checkClaim returns an error if r names a hook that no module of its cases has, or an event that
// none of its cases expects.
func checkClaim(r *Row, cases map[string]*golden.Case) error {
	for _, name := range identifier.FindAllString(r.Title+" "+r.Why, -1) {
		var has func(*golden.Case) bool
		switch {
		case contract.Known(abi.Hook(name)):
			has = func(c *golden.Case) bool { return slices.Contains(hooksOf(c), abi.Hook(name)) }
		case slices.Contains(contract.EventTypes(), abi.EventType(name)):
			has = func(c *golden.Case) bool { return c.ExpectsEvent(abi.EventType(name)) }
		default:
			continue
		}
		if !slices.ContainsFunc(r.Cases, func(show string) bool { return has(cases[show]) }) {
			return fmt.Errorf("none of its cases has %s: %s", name, strings.Join(r.Cases, ", "))
		}
	}
	return nil
}
