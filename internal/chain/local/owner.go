package local

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// An Owner determines the scopes of an entry's keys. The entries of a ring share the keys that
// begin with abi.SharedPrefix. Entries of the rings further in can read but not write those keys.
// All other keys belong to one entry.
type Owner struct{ own, shared []string }

// NewOwner returns the owner for an entry of a chain. Entries of chains with different names have
// separate values; the name may be empty. rings has the names of the entry's ring and of the rings
// outside it, from the inside out.
func NewOwner(chain, entry string, rings ...string) Owner {
	own := "entry:" + entry
	if chain != "" {
		own = "agent:" + chain + "/" + own
	}
	shared := make([]string, len(rings))
	for i, ring := range rings {
		shared[i] = "ring:" + ring
	}
	return Owner{own: []string{own}, shared: shared}
}

// scopes returns the scopes in which the owner looks up key. The owner writes to the first of them.
func (o *Owner) scopes(key string) []string {
	if strings.HasPrefix(key, abi.SharedPrefix) {
		return o.shared
	}
	return o.own
}

// scope returns the scope to which the owner writes key.
func (o *Owner) scope(key string) string { return o.scopes(key)[0] }
