package local

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// An Owner determines the scopes of an entry's keys. A key that begins with abi.SharedPrefix is
// shared by the entries of a ring; entries of the rings inside it can read but not write it. Any
// other key is the entry's own.
type Owner struct{ own, shared []string }

// NewOwner returns the owner for an entry of a chain. Chains of different names, including the
// empty name, have separate values. rings are the names of the entry's ring and of the rings
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

// scopes returns the scopes in which the owner looks up a key. It writes to the first.
func (o *Owner) scopes(key string) []string {
	if strings.HasPrefix(key, abi.SharedPrefix) {
		return o.shared
	}
	return o.own
}

// scope returns the scope to which the owner writes a key.
func (o *Owner) scope(key string) string { return o.scopes(key)[0] }
