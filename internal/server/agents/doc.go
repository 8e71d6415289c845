// Package agents checks and stores the agent files of tenants, and makes agents of them. A
// file is checked against the tenant's policy when it is stored, and again when an agent is
// made of it. [Pool] caches agents between runs. The package knows nothing of runs.
package agents
