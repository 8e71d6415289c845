// Package agents checks and stores the agent files of tenants, and builds agents from them. A
// file is checked against the tenant's policy when it is stored, and again when its agent is
// built. [Pool] caches agents between runs. The package does not depend on runs.
package agents
