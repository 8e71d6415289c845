package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool"
)

// A toolSet holds the tools of one owner. Owner is a name for messages, such as `MCP server "files"`
// or `the built-in tools`.
type toolSet struct {
	Owner string
	Tools []tool.Tool
}

// joinTools combines sets. It fails if two tools have the same name, and the error names their
// owners.
func joinTools(sets ...toolSet) ([]tool.Tool, error) {
	var all []tool.Tool
	var names []string
	owners := map[string][]string{}
	for _, set := range sets {
		for _, t := range set.Tools {
			name := t.Declaration().Name
			if owners[name] == nil {
				names = append(names, name)
			}
			owners[name] = append(owners[name], set.Owner)
			all = append(all, t)
		}
	}
	var clashes []error
	for _, name := range names {
		who := owners[name]
		if len(who) == 1 {
			continue
		}
		by := strings.Join(slices.Compact(who), " and by ")
		if by == who[0] {
			by += " twice"
		}
		clashes = append(clashes, fmt.Errorf("tool %q is offered by %s; remove all but one", name, by))
	}
	if err := errors.Join(clashes...); err != nil {
		return nil, err
	}
	return all, nil
}
