package httpapi

import (
	"slices"

	"github.com/agent-runner/agent-runner/internal/store"
)

// A Role is a named set of scopes, which a person or a key has in a tenant.
type Role string

// Roles in a tenant, and in the operator's.
const (
	RoleOwner     Role = "owner"     // all scopes of a tenant
	RoleDeveloper Role = "developer" // modules, agents, runs, secrets and tokens
	RoleApprover  Role = "approver"  // reads as a viewer, and answers interrupts of runs
	RoleViewer    Role = "viewer"    // reads modules, agents, runs and usage

	RoleAdmin   Role = "admin"   // all scopes of the operator's tenant
	RoleSupport Role = "support" // reads what operators see
)

// Roles of tenants and of the operator's tenant, each of which includes the one after it.
var (
	TenantRoles   = []Role{RoleOwner, RoleDeveloper, RoleApprover, RoleViewer}
	OperatorRoles = []Role{RoleAdmin, RoleSupport}
)

var (
	viewerScopes    = []Scope{ModulesRead, AgentsRead, RunsRead, UsageRead}
	approverScopes  = append(slices.Clip(viewerScopes), RunsApprove)
	developerScopes = append(slices.Clip(approverScopes), ModulesWrite, AgentsWrite, RunsWrite, SecretsWrite,
		TokensWrite)
)

// RolesOf returns the roles that exist in a tenant.
func RolesOf(tenant string) []Role {
	if tenant == store.Operator {
		return OperatorRoles
	}
	return TenantRoles
}

// Scopes returns the scopes that the role has in a tenant. A role that does not exist there has
// none.
func (r Role) Scopes(tenant string) []string {
	if !slices.Contains(RolesOf(tenant), r) {
		return []string{}
	}
	switch r {
	case RoleAdmin:
		return OperatorScopes()
	case RoleSupport:
		return ScopeNames([]Scope{OperatorRead})
	case RoleOwner:
		return ScopeNames(TenantScopes)
	case RoleDeveloper:
		return ScopeNames(developerScopes)
	case RoleApprover:
		return ScopeNames(approverScopes)
	default:
		return ScopeNames(viewerScopes)
	}
}
