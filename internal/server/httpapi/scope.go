package httpapi

import "slices"

// A Scope is a permission of a key.
type Scope string

// Scopes of keys. A key of the operator's tenant can have all of them; keys of other tenants
// can have all but OperatorScope.
const (
	OperatorScope Scope = "operator" // tenants, their keys, blocks, quarantine and metrics
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

	// Public is the scope of routes that need no key.
	Public Scope = "public"
)

// TenantScopes lists the scopes that any tenant's key can have.
var TenantScopes = []Scope{
	KeysRead,
	KeysWrite,
	ModulesRead,
	ModulesWrite,
	AgentsRead,
	AgentsWrite,
	RunsRead,
	RunsWrite,
	UsageRead,
	SecretsWrite,
}

// OperatorScopes returns all scopes that a key can have. The keys that the server's method
// OperatorKey creates have all of them.
func OperatorScopes() []string {
	return append([]string{string(OperatorScope)}, ScopeNames(TenantScopes)...)
}

// Known reports whether a key can have the scope.
func (s Scope) Known() bool { return s == OperatorScope || slices.Contains(TenantScopes, s) }

// ScopeNames returns scopes in the store's form.
func ScopeNames(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}
