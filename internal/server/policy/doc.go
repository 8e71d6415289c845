// Package policy implements the operator's limits for a tenant: grants, models, parameters of
// models, hosts and steps. It imports no other part of the server.
package policy
