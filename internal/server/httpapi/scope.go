package httpapi

import "slices"

// A Scope is what a key may do.
type Scope string

// Scopes of keys. A key of the operator's tenant may have all of them; one of
// another tenant has all but OperatorScope.
const (
	OperatorScope Scope = "operator" // tenants, their keys, and blocks
	KeysRead      Scope = "keys:read"
	KeysWrite     Scope = "keys:write"
	ModulesRead   Scope = "modules:read"
	ModulesWrite  Scope = "modules:write"
	AgentsRead    Scope = "agents:read"
	AgentsWrite   Scope = "agents:write"
	RunsRead      Scope = "runs:read"
	RunsWrite     Scope = "runs:write"
	UsageRead     Scope = "usage:read"
	SecretsWrite  Scope = "secrets:write"

	// Public is no scope: the route is for everybody, without a key.
	Public Scope = "public"
)

// TenantScopes are all scopes that a tenant's key may have.
var TenantScopes = []Scope{KeysRead, KeysWrite, ModulesRead, ModulesWrite, AgentsRead, AgentsWrite, RunsRead, RunsWrite, UsageRead, SecretsWrite}

// OperatorScopes are those of the operator's own key.
func OperatorScopes() []string {
	return append([]string{string(OperatorScope)}, ScopeNames(TenantScopes)...)
}

func (s Scope) Known() bool { return s == OperatorScope || slices.Contains(TenantScopes, s) }

// texts are scopes as the store has them.
func ScopeNames(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}
