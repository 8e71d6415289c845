// Package tenants serves what belongs to tenants themselves: tenants, their keys, secrets
// and usage. It stores nothing but through the store.
package tenants
