package httpapi

import "slices"

// A Scope is a permission of a key.
type Scope string

// Scopes of keys and routes. No key has SignedIn or Public. A key of the operator's tenant can have all
// other scopes; keys of other tenants cannot have OperatorScope and OperatorRead.
const (
	OperatorScope  Scope = "operator"      // tenants, their keys and members, blocks, quarantine and metrics
	OperatorRead   Scope = "operator:read" // reads what OperatorScope changes
	KeysRead       Scope = "keys:read"
	KeysWrite      Scope = "keys:write"
	ModulesRead    Scope = "modules:read"
	ModulesWrite   Scope = "modules:write"
	AgentsRead     Scope = "agents:read"
	AgentsWrite    Scope = "agents:write"
	RunsRead       Scope = "runs:read"
	RunsWrite      Scope = "runs:write"
	RunsApprove    Scope = "runs:approve" // answers interrupts of runs
	MembersRead    Scope = "members:read"
	MembersWrite   Scope = "members:write"
	AuditRead      Scope = "audit:read"
	UsageRead      Scope = "usage:read"
	SecretsWrite   Scope = "secrets:write"
	RetentionWrite Scope = "retention:write" // how long threads are stored
	TokensWrite    Scope = "tokens:write"    // lists, creates and deletes tokens of end users
	CORSWrite      Scope = "cors:write"      // origins whose pages may use tokens

	// SignedIn is the scope of routes that need an API key or a session, but no scope.
	SignedIn Scope = "signed-in"
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
	RunsApprove,
	UsageRead,
	SecretsWrite,
	TokensWrite,
	CORSWrite,
	MembersRead,
	MembersWrite,
	AuditRead,
	RetentionWrite,
}

// implied maps a scope to the scope that includes it.
var implied = map[Scope]Scope{OperatorRead: OperatorScope, RunsApprove: RunsWrite}

// In reports whether a list of scopes has the scope or one that includes it.
func (s Scope) In(scopes []string) bool {
	return slices.Contains(scopes, string(s)) || implied[s] != "" && slices.Contains(scopes, string(implied[s]))
}

// operates reports whether only keys of the operator's tenant can have the scope.
func (s Scope) operates() bool { return s == OperatorScope || s == OperatorRead }

// OperatorScopes returns all scopes that a key can have. The keys that the server's method
// OperatorKey creates have all of them.
func OperatorScopes() []string {
	return append([]string{string(OperatorScope), string(OperatorRead)}, ScopeNames(TenantScopes)...)
}

// Known reports whether a key can have the scope.
func (s Scope) Known() bool { return s.operates() || slices.Contains(TenantScopes, s) }

// ScopeNames returns scopes in the store's form.
func ScopeNames(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}
