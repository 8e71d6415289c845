// Package durability tests that a store keeps its data, and works, in bad times: full disks, corrupt
// files, power failures, restarts of PostgreSQL, backups, upgrades, and many runs. It has no code but
// its tests, which use the public functions of package store.
package durability
