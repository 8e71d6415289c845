// Package policy holds what the operator allows a tenant: grants, models, parameters of
// models, hosts and steps. It answers whether a policy allows something and imports no
// other part of the server.
package policy
