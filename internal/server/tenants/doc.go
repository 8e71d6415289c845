// Package tenants serves tenants, their keys, secrets and usage. The store holds all data: the
// services have no state of their own.
package tenants
