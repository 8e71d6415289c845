// Package tenants serves tenants, their keys, secrets and usage. The store holds all of its
// data.
package tenants
