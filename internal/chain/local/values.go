// Package local stores run-local values: small key-value stores in which the entries of a chain
// store data for the length of one run.
//
// Each hook call writes through its own [Tx]. [Values.Changes] returns the changes for the host to
// persist. The package guarantees that unconditional writes take effect only if their hook
// succeeds, that versions never repeat, and that no entry exceeds its limits. It does not depend on
// hooks or the chain.
package local

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Limits of the values of one scope. A scope has the values of one entry, or the values that a ring
// shares.
const (
	maxBytes = 4 << 20 // keys and values together
	maxKeys  = 4096
)

// Values has the run-local values of all entries of a run. It can be encoded as JSON, with which
// the host persists it.
type Values struct {
	mu          sync.Mutex
	lastVersion int64
	scopes      map[string]map[string]value
	sizes       map[string]int // bytes of keys and values, by scope

	dirty   map[scopedKey]bool  // changed since the last call of Changes
	pending map[scopedKey]int64 // additions of calls in progress to counters
	holds   map[*Hold]bool      // holds of exchanges in progress that have changed values

	share *account.Share // share of the run's memory; nil if memory is not counted
}

type value struct {
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
}

// New returns an empty set of values for a new run.
func New() *Values {
	return &Values{scopes: map[string]map[string]value{}, sizes: map[string]int{},
		dirty: map[scopedKey]bool{}, pending: map[scopedKey]int64{}, holds: map[*Hold]bool{}}
}

// Count counts the memory of the values in account a from now on. It counts existing values even if
// they exceed the account's limit. If a is nil, Count stops the counting.
func (v *Values) Count(a *account.Account) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.share != nil {
		_ = v.share.Set(0)
		v.share = nil
	}
	if a == nil {
		return
	}
	v.share = account.NewShare(a)
	for scope, values := range v.scopes {
		v.share.Force(int64(v.sizes[scope] + len(values)*size.Overhead))
	}
}

// MarshalJSON writes all values with their versions.
func (v *Values) MarshalJSON() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return abijson.Marshal(v.scopes)
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (v *Values) UnmarshalJSON(b []byte) error {
	scopes := map[string]map[string]value{}
	if err := json.Unmarshal(b, &scopes); err != nil {
		return err
	}
	fresh := New()
	v.scopes, v.sizes, v.lastVersion = scopes, fresh.sizes, 0
	v.dirty, v.pending, v.holds = fresh.dirty, fresh.pending, fresh.holds
	for scope, values := range scopes {
		for key, have := range values {
			v.lastVersion = max(v.lastVersion, have.Version)
			v.sizes[scope] += len(key) + len(have.Value)
		}
	}
	return nil
}

func checkKey(key string) error {
	if key == "" {
		return &abi.Error{Code: abi.CodeInvalid, Message: "a run-local key is empty"}
	}
	if len(key) > contract.MaxKey {
		return &abi.Error{
			Code:    abi.CodeLimit,
			Message: "a run-local key has at most " + strconv.Itoa(contract.MaxKey) + " bytes",
		}
	}
	return nil
}

func errFull() error {
	return &abi.Error{Code: abi.CodeLimit, Message: "run-local values are limited to " +
		strconv.Itoa(maxBytes) + " bytes and " + strconv.Itoa(maxKeys) + " keys"}
}
