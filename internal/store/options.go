package store

import "time"

// Options configure a store. The zero value has the defaults.
type Options struct {
	// Retention is the age at which the store deletes finished runs. It looks for them when it is
	// opened, and then at intervals of a tenth of Retention, but at least a second and at most an
	// hour. If Retention is 0, runs are kept forever.
	Retention time.Duration
	// Quota limits the durable values of each tenant, and of each of its entries.
	Quota Quota
	// Keyring seals the secrets of tenants. Without one, secrets cannot be stored.
	Keyring *Keyring
}
