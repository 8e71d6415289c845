package local

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// An Owner says in which scopes an entry finds its keys. A key that begins
// with abi.SharedPrefix is shared by the entries of a ring; entries of the
// rings inside it can read but not write it. Any other key is the entry's own.
type Owner struct{ own, shared []string }

// NewOwner returns the owner for an entry of a chain. Chains of different
// names have separate values; an empty name is one of them. rings are the names
// of the entry's ring and of the rings outside it, from the inside out.
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

// scopes returns where the owner finds a key. It writes to the first of them.
func (o *Owner) scopes(key string) []string {
	if strings.HasPrefix(key, abi.SharedPrefix) {
		return o.shared
	}
	return o.own
}

// scope returns where the owner writes a key.
func (o *Owner) scope(key string) string { return o.scopes(key)[0] }
