package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A StoredAgent is a version of an agent.
type StoredAgent struct {
	Name    string
	Version int64 // starts at 1
	Digest  string
	Body    []byte   // content of agent.yaml
	Modules []string // digests of the modules that it refers to
	Created time.Time
	Aliases []Alias // of all versions, ordered by name; only [Tenant.Agents] sets them
}

// Limits on a tenant's agents.
const (
	maxAgents = 1000
	// maxAgentVersions is the number of newest versions of an agent that are kept. An older version is kept while an
	// alias or an active rollout refers to it.
	maxAgentVersions = 100
)

const agentColumns = `name, version, digest, body, modules, created_ms`

func scanAgent(scan func(...any) error) (*StoredAgent, error) {
	var a StoredAgent
	var body []byte
	var modules string
	var created int64
	if err := scan(&a.Name, &a.Version, &a.Digest, &body, &modules, &created); err != nil {
		return nil, err
	}
	a.Body, a.Created = bytes.Clone(body), time.UnixMilli(created)
	if err := json.Unmarshal([]byte(modules), &a.Modules); err != nil {
		return nil, database.Corruptf("agent %s: %w", a.Name, err)
	}
	return &a, nil
}

// PutAgent stores a new version of an agent and returns it. If the newest version is equal, PutAgent returns the
// newest version instead. It keeps the newest 100 versions and those that an alias or an active rollout refers to,
// and deletes the others. It fails with a [*QuotaError] if the tenant's storage quota or the limit of 1,000 agents is
// reached.
func (n *Tenant) PutAgent(ctx context.Context, name string, body []byte, modules []string) (a *StoredAgent, err error) {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	list, err := marshal(append([]string{}, modules...))
	if err != nil {
		return nil, err
	}
	err = n.update(ctx, func(t scoped) error {
		newest, err := newestAgent(t, name)
		if err != nil {
			return err
		}
		version := int64(1)
		if newest != nil {
			if newest.Digest == digest && slices.Equal(newest.Modules, modules) {
				a = newest
				return nil
			}
			version = newest.Version + 1
		} else if err := checkCount(t, "agents", maxAgents, `SELECT count(*) FROM agent_room WHERE tenant = $1`); err != nil {
			return err
		}
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		if err := checkStorage(t, info.Quota, int64(len(body))); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO agents (tenant, name, version, digest, body, modules, created_ms) VALUES ($1, $2, $3, $4, $5, $6, NOW_MS)`,
			name, version, digest, body, list); err != nil {
			return err
		}
		if err := afterPutAgent(t, name, version, int64(len(body))); err != nil {
			return err
		}
		if a, err = newestAgent(t, name); err != nil {
			return err
		}
		return t.record(ctx, "agent.put", name, map[string]any{"version": version, "digest": digest})
	})
	return a, err
}

// referred selects the versions of an agent that its aliases and its active rollouts refer to. The
// agent's name is parameter $2.
const referred = `SELECT version FROM agent_aliases WHERE tenant = $1 AND agent = $2
	UNION SELECT stable_version FROM rollouts WHERE tenant = $1 AND agent = $2 AND ended_ms = 0
	UNION SELECT canary_version FROM rollouts WHERE tenant = $1 AND agent = $2 AND ended_ms = 0`

// afterPutAgent deletes versions beyond the limit after a new version was stored, and
// updates the tables of the agent's size and its modules.
func afterPutAgent(t scoped, name string, version, size int64) error {
	const old = ` FROM agents WHERE tenant = $1 AND name = $2 AND version <= $3 AND version NOT IN (` + referred + `)`
	var deleted int64
	if err := t.row([]any{&deleted},
		`SELECT CAST(COALESCE(sum(length(body)), 0) AS BIGINT)`+old, name, version-maxAgentVersions); err != nil {
		return err
	}
	if _, err := t.Exec(`DELETE`+old, name, version-maxAgentVersions); err != nil {
		return err
	}
	if _, err := t.Exec(`INSERT INTO agent_room (tenant, name, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, name) DO UPDATE SET bytes = agent_room.bytes + $3`, name, size-deleted); err != nil {
		return err
	}
	return refreshAgentModules(t, name)
}

// refreshAgentModules updates the table of an agent's modules. It contains the modules of the newest
// version, and of the versions that aliases and active rollouts refer to. These modules cannot be
// deleted.
func refreshAgentModules(t scoped, name string) error {
	lists, err := database.Strings(
		t,
		`SELECT modules FROM agents WHERE tenant = $1 AND name = $2 AND (version IN (`+referred+`)
		OR version = (SELECT max(version) FROM agents WHERE tenant = $1 AND name = $2))`,
		name,
	)
	if err != nil {
		return err
	}
	if _, err := t.Exec(`DELETE FROM agent_modules WHERE tenant = $1 AND name = $2`, name); err != nil {
		return err
	}
	for _, list := range lists {
		var modules []string
		if err := json.Unmarshal([]byte(list), &modules); err != nil {
			return database.Corruptf("agent %s: %w", name, err)
		}
		for _, digest := range modules {
			if _, err := t.Exec(`INSERT INTO agent_modules (tenant, digest, name) VALUES ($1, $2, $3)
				ON CONFLICT (tenant, digest, name) DO NOTHING`, digest, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func newestAgent(t scoped, name string) (a *StoredAgent, err error) {
	err = t.Query(func(scan func(...any) error) error {
		a, err = scanAgent(scan)
		return err
	}, `SELECT `+agentColumns+` FROM agents WHERE tenant = $1 AND name = $2 ORDER BY version DESC LIMIT 1`, name)
	return a, err
}

// Agent returns a version of an agent, or the newest one if version is 0. It fails with
// [ErrNoAgent] if the tenant has no such agent or version.
func (n *Tenant) Agent(ctx context.Context, name string, version int64) (a *StoredAgent, err error) {
	err = n.view(ctx, func(t scoped) error {
		a, err = agentIn(t, name, version)
		return err
	})
	return a, err
}

func agentIn(t scoped, name string, version int64) (a *StoredAgent, err error) {
	err = t.Query(func(scan func(...any) error) error {
		a, err = scanAgent(scan)
		return err
	}, `SELECT `+agentColumns+` FROM agents
		WHERE tenant = $1 AND name = $2 AND (CAST($3 AS BIGINT) = 0 OR version = $3)
		ORDER BY version DESC LIMIT 1`, name, version)
	if err == nil && a == nil {
		err = noAgent(t, name)
	}
	return a, err
}

// checkVersion fails with [ErrNoAgent] if an agent has no such version. Unlike for agentIn, 0 is not the newest.
func checkVersion(t scoped, name string, version int64) error {
	if version < 1 {
		return noAgent(t, name)
	}
	_, err := agentIn(t, name, version)
	return err
}

// noAgent returns the error for an agent that does not exist, or that lacks a version.
func noAgent(t scoped, name string) error {
	var newest int64
	err := t.row([]any{&newest}, `SELECT COALESCE(MAX(version), 0) FROM agents WHERE tenant = $1 AND name = $2`, name)
	if err != nil {
		return err
	}
	if newest == 0 {
		return database.ForCaller(fmt.Errorf("agent %s: %w", name, ErrNoAgent))
	}
	return database.ForCaller(fmt.Errorf("agent %s: %w; its newest version is %d", name, errNoVersion, newest))
}

// AgentOf returns the version of an agent that ref names. It fails with [ErrNoAgent] if the tenant has
// no such agent or version, and with [ErrNoAlias] if the agent has no such alias.
func (n *Tenant) AgentOf(ctx context.Context, ref AgentRef) (a *StoredAgent, err error) {
	err = n.view(ctx, func(t scoped) error {
		version, err := versionOf(t, &ref)
		if err != nil {
			return err
		}
		a, err = agentIn(t, ref.Name, version)
		return err
	})
	return a, err
}

// HasAgent reports whether the tenant has an agent with a name.
func (n *Tenant) HasAgent(ctx context.Context, name string) (bool, error) {
	var found int64
	err := n.view(ctx, func(t scoped) error {
		return t.row([]any{&found}, `SELECT count(*) FROM agent_room WHERE tenant = $1 AND name = $2`, name)
	})
	return found > 0, err
}

// An AgentSnapshot holds an agent and the data to build it, read in one transaction.
type AgentSnapshot struct {
	Info    *TenantInfo
	Agent   *StoredAgent
	Around  *StoredAgent // the operator's agent whose rings surround the tenant's agent; nil if there is none
	Secrets []SecretInfo
	// Rollout is the active rollout that chose the version, and Arm the version's arm; empty if none did.
	Rollout string
	Arm     Arm
}

// AgentSnapshot returns the version of an agent that ref names. If around is not empty, the snapshot also has the
// operator's agent with that name, if there is one: its version aroundVersion, or its newest version if aroundVersion
// is 0. AgentSnapshot fails with [ErrNoTenant] if the tenant does not exist, with [ErrNoAgent] if the tenant has no
// such agent or version, and with [ErrNoAlias] if the agent has no such alias.
func (n *Tenant) AgentSnapshot(
	ctx context.Context,
	ref AgentRef,
	around string,
	aroundVersion int64,
) (*AgentSnapshot, error) {
	var p AgentSnapshot
	err := n.view(ctx, func(t scoped) (err error) {
		if p.Info, err = tenantIn(t.tx, n.id); err != nil {
			return err
		}
		version, err := versionOf(t, &ref)
		if err != nil {
			return err
		}
		if ref.Version == 0 && version != 0 {
			assigned, rollout, arm, err := assign(t, &ref, cmp.Or(ref.Alias, StableAlias))
			if err != nil {
				return err
			}
			if p.Rollout, p.Arm = rollout, arm; assigned != 0 {
				version = assigned
			}
		}
		if p.Agent, err = agentIn(t, ref.Name, version); err != nil {
			return err
		}
		if p.Secrets, _, err = secretsIn(t, Page{Limit: maxSecrets}); err != nil || around == "" {
			return err
		}
		if p.Around, err = agentIn(scoped{t.tx, Operator}, around, aroundVersion); errors.Is(err, ErrNoAgent) {
			return nil
		}
		return err
	})
	return &p, err
}

// Agents returns a page of the newest versions of the tenant's agents with their aliases, ordered by name,
// and the position of its last agent if more follow.
func (n *Tenant) Agents(ctx context.Context, p Page) (agents []StoredAgent, next *Position, err error) {
	err = n.view(ctx, func(t scoped) (err error) {
		agents, next, err = list(t, p, func(scan func(...any) error) (a StoredAgent, err error) {
			read, err := scanAgent(scan)
			if err == nil {
				a = *read
			}
			return a, err
		}, func(a *StoredAgent) Position { return Position{Name: a.Name} }, `SELECT `+agentColumns+` FROM agents WHERE tenant = $1 AND name > $2
			AND version = (SELECT max(version) FROM agents newer WHERE newer.tenant = $1 AND newer.name = agents.name)
			AND ($3 = '' OR lower(name) LIKE lower($3) ESCAPE '\') ORDER BY name LIMIT $4`, p.name(), p.namePattern())
		if err != nil {
			return err
		}
		return readAliases(t, agents)
	})
	return agents, next, err
}

// AgentNames returns the name, number and creation time of each agent's newest version,
// ordered by name. A tenant has at most 1,000 agents.
func (n *Tenant) AgentNames(ctx context.Context) (agents []StoredAgent, err error) {
	err = n.view(ctx, func(t scoped) error {
		return t.Query(func(scan func(...any) error) error {
			var a StoredAgent
			var created int64
			err := scan(&a.Name, &a.Version, &created)
			a.Created = time.UnixMilli(created)
			agents = append(agents, a)
			return err
		}, `SELECT name, version, created_ms FROM agents WHERE tenant = $1
			AND version = (SELECT max(version) FROM agents newer WHERE newer.tenant = $1 AND newer.name = agents.name)
			ORDER BY name`)
	})
	return agents, err
}

// DeleteAgent deletes all versions of an agent, its aliases with their moves, and its rollouts. It fails with
// [ErrNoAgent] if the tenant has no such agent. It does not delete the agent's runs.
func (n *Tenant) DeleteAgent(ctx context.Context, name string) error {
	return n.update(ctx, func(t scoped) error {
		deleted, err := t.Exec(`DELETE FROM agents WHERE tenant = $1 AND name = $2`, name)
		if err == nil && deleted == 0 {
			err = database.ForCaller(fmt.Errorf("agent %s: %w", name, ErrNoAgent))
		}
		for _, table := range []string{"agent_room", "agent_modules"} {
			if err == nil {
				_, err = t.Exec(`DELETE FROM `+table+` WHERE tenant = $1 AND name = $2`, name)
			}
		}
		rollouts, lost := database.Strings(t, `SELECT id FROM rollouts WHERE tenant = $1 AND agent = $2`, name)
		if err == nil {
			err = lost
		}
		for _, id := range rollouts {
			if err == nil {
				err = deleteRollout(t, id)
			}
		}
		for _, table := range []string{"agent_aliases", "agent_alias_moves"} {
			if err == nil {
				_, err = t.Exec(`DELETE FROM `+table+` WHERE tenant = $1 AND agent = $2`, name)
			}
		}
		if err != nil {
			return err
		}
		return t.record(ctx, "agent.delete", name, nil)
	})
}

// An AgentRef names a version of an agent, directly or by an alias.
type AgentRef struct {
	Name    string
	Version int64  // 0 selects the version by Alias
	Alias   string // empty selects the alias stable if the agent has it, else the newest version
	// Run and Thread are the run that starts and its thread, which a rollout assigns to a version. Thread may
	// be empty.
	Run, Thread string
}

// String returns the reference as NAME, NAME@VERSION or NAME@ALIAS.
func (r *AgentRef) String() string {
	switch {
	case r.Version != 0:
		return r.Name + "@" + strconv.FormatInt(r.Version, 10)
	case r.Alias != "":
		return r.Name + "@" + r.Alias
	}
	return r.Name
}

// AgentOf returns the name of the agent of a reference.
func AgentOf(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

// versionOf returns the number of the version that a reference names; 0 is the newest one. It fails
// with [ErrNoAlias] if the agent has no such alias.
func versionOf(t scoped, ref *AgentRef) (version int64, err error) {
	if ref.Version != 0 {
		return ref.Version, nil
	}
	name := ref.Alias
	if name == "" {
		name = StableAlias
	}
	a, err := aliasIn(t, ref.Name, name)
	switch {
	case err != nil:
		return 0, err
	case a != nil:
		return a.Version, nil
	case ref.Alias == "":
		return 0, nil
	}
	if _, err := agentIn(t, ref.Name, 0); err != nil { // the agent may be what is missing
		return 0, err
	}
	return 0, noAlias(ref.Name, name)
}
