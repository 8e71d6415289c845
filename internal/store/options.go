package store

import "time"

// Options configure a store. The zero value has the defaults.
type Options struct {
	// Retention is the time after which finished runs are deleted: when the store is opened,
	// and then every hour, or ten times per Retention if that is more often, but at most once a
	// second. If Retention is 0, runs are kept forever.
	Retention time.Duration
	// Quota limits the durable values of each tenant, and of each of its entries.
	Quota Quota
	// Keyring seals the secrets of tenants. Without one, secrets cannot be stored.
	Keyring *Keyring
}
