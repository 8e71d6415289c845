package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A TenantModule is a module of one tenant. Tenants with the same module share its bytes, which
// none of them can observe.
type TenantModule struct {
	Digest  string
	Kind    string // "wasm" or "script"
	Size    int64
	About   json.RawMessage // the module's description, defined by the server
	Names   []ModuleName
	Created time.Time
}

// A ModuleName is a name and version that a tenant gave to a module.
type ModuleName struct {
	Name    string
	Version string
	Digest  string
	Created time.Time
}

// PutModule adds a module whose bytes the store has, and its name and version if the name is not
// empty. It fails with [ErrExists] if another module has this name and version, and with a
// [*QuotaError] if the tenant's quota does not allow the module, or the tenant has 10,000 other
// pairs of name and version.
func (n *Tenant) PutModule(ctx context.Context, m *TenantModule, name, version string) error {
	return n.update(ctx, func(t scoped) error {
		if err := putModule(t, m, name, version); err != nil {
			return err
		}
		detail := map[string]any{"kind": m.Kind, "bytes": m.Size}
		if name != "" {
			detail["name"] = name + "@" + version
		}
		return t.record(ctx, "module.upload", "sha256:"+m.Digest, detail)
	})
}

func putModule(t scoped, m *TenantModule, name, version string) error {
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return err
	}
	has, count, err := hasModule(t, m.Digest)
	if err != nil {
		return err
	}
	if has == 0 {
		if err := checkModule(t, info.Quota, count, m.Size); err != nil {
			return err
		}
	}
	if name != "" {
		if err := checkCount(t, "module_names", maxModuleNames, `SELECT count(*) FROM module_names WHERE tenant = $1 AND NOT (name = $2 AND version = $3)`, name, version); err != nil {
			return err
		}
	}
	if _, err := t.Exec(`INSERT INTO tenant_modules (tenant, digest, kind, size, about, created_ms) VALUES ($1, $2, $3, $4, $5, NOW_MS)
			ON CONFLICT (tenant, digest) DO UPDATE SET about = $5, kind = $3`, m.Digest, m.Kind, m.Size, string(m.About)); err != nil ||
		name == "" {
		return err
	}
	added, err := t.Exec(
		`INSERT INTO module_names (tenant, name, version, digest, created_ms) VALUES ($1, $2, $3, $4, NOW_MS)
			ON CONFLICT (tenant, name, version) DO NOTHING`,
		name,
		version,
		m.Digest,
	)
	if err != nil || added == 1 {
		return err
	}
	var digest string
	if err := t.Query(func(scan func(...any) error) error { return scan(&digest) },
		`SELECT digest FROM module_names WHERE tenant = $1 AND name = $2 AND version = $3`, name, version); err != nil || digest == m.Digest {
		return err
	}
	return database.ForCaller(
		fmt.Errorf("module %s@%s is sha256:%s: %w; use another version", name, version, digest, ErrExists),
	)
}

// maxModuleNames is the maximum number of pairs of name and version of a tenant.
const maxModuleNames = 10_000

// hasModule returns has, which is 1 if the tenant has the module with the digest and 0 otherwise,
// and count, the number of the tenant's modules.
func hasModule(t scoped, digest string) (has, count int64, err error) {
	err = t.row(
		[]any{&has, &count},
		`SELECT CAST(COALESCE(sum(CASE WHEN digest = $2 THEN 1 ELSE 0 END), 0) AS BIGINT), count(*) FROM tenant_modules WHERE tenant = $1`,
		digest,
	)
	return has, count, err
}

// checkModule fails with a [*QuotaError] if the quota does not allow another module of size bytes.
func checkModule(t scoped, q TenantQuota, modules, size int64) error {
	if err := checkQuota("modules", q.Modules, modules, 1, 0); err != nil {
		return err
	}
	return checkStorage(t, q, size)
}

// CheckModuleQuota fails with a [*QuotaError] if the tenant's quota does not allow another
// module of size bytes. It always allows a module that the tenant already has.
func (n *Tenant) CheckModuleQuota(ctx context.Context, digest string, size int64) error {
	return n.view(ctx, func(t scoped) error {
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		has, count, err := hasModule(t, digest)
		if err != nil || has > 0 {
			return err
		}
		return checkModule(t, info.Quota, count, size)
	})
}

// Module returns one of the tenant's modules. It fails with [ErrNoModule] if the tenant has no
// module with the digest.
func (n *Tenant) Module(ctx context.Context, digest string) (m *TenantModule, err error) {
	err = n.view(ctx, func(t scoped) error {
		found, _, err := list(t, Page{Limit: 1}, scanModule, modulePosition,
			`SELECT `+moduleColumns+` FROM tenant_modules WHERE tenant = $1 AND digest = $2 LIMIT $3`, digest)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return database.ForCaller(fmt.Errorf("sha256:%s: %w", digest, ErrNoModule))
		}
		m = &found[0]
		return readNames(t, found)
	})
	return m, err
}

// Modules returns a page of the tenant's modules, the newest first, and the position of
// its last module if more follow.
func (n *Tenant) Modules(ctx context.Context, p Page) (modules []TenantModule, next *Position, err error) {
	created, digest := p.older()
	err = n.view(ctx, func(t scoped) (err error) {
		modules, next, err = list(t, p, scanModule, modulePosition, `SELECT `+moduleColumns+` FROM tenant_modules
			WHERE tenant = $1 AND (created_ms, digest) < ($2, $3) AND ($4 = '' OR EXISTS (
				SELECT 1 FROM module_names n WHERE n.tenant = $1 AND n.digest = tenant_modules.digest
				AND lower(n.name) LIKE lower($4) ESCAPE '\'))
			ORDER BY created_ms DESC, digest DESC LIMIT $5`, created, digest, p.namePattern())
		if err != nil {
			return err
		}
		return readNames(t, modules)
	})
	return modules, next, err
}

const moduleColumns = `digest, kind, size, about, created_ms`

func scanModule(scan func(...any) error) (m TenantModule, err error) {
	var about string
	var created int64
	err = scan(&m.Digest, &m.Kind, &m.Size, &about, &created)
	m.About, m.Created = json.RawMessage(about), time.UnixMilli(created)
	return m, err
}

func modulePosition(m *TenantModule) Position { return Position{m.Created, m.Digest} }

// readNames sets the names of modules, which must be in the order of [Tenant.Modules].
func readNames(t scoped, modules []TenantModule) error {
	if len(modules) == 0 {
		return nil
	}
	at := map[string]*TenantModule{}
	for i := range modules {
		at[modules[i].Digest] = &modules[i]
	}
	first, last := &modules[0], &modules[len(modules)-1]
	return t.Query(func(scan func(...any) error) error {
		name, err := scanModuleName(scan)
		if m := at[name.Digest]; m != nil {
			m.Names = append(m.Names, name)
		}
		return err
	}, `SELECT name, version, digest, created_ms FROM module_names WHERE tenant = $1 AND digest IN
			(SELECT digest FROM tenant_modules
			WHERE tenant = $1 AND (created_ms, digest) <= ($2, $3) AND (created_ms, digest) >= ($4, $5))
		ORDER BY name, created_ms, version`,
		first.Created.UnixMilli(), first.Digest, last.Created.UnixMilli(), last.Digest)
}

func scanModuleName(scan func(...any) error) (m ModuleName, err error) {
	var created int64
	err = scan(&m.Name, &m.Version, &m.Digest, &created)
	m.Created = time.UnixMilli(created)
	return m, err
}

// ModuleName returns the module with a name and a version. An empty version selects the newest
// one. It fails with [ErrNoModule] if there is none.
func (n *Tenant) ModuleName(ctx context.Context, name, version string) (m ModuleName, err error) {
	found := false
	err = n.view(ctx, func(t scoped) error {
		err := t.Query(func(scan func(...any) error) error {
			m, err = scanModuleName(scan)
			found = true
			return err
		}, `SELECT name, version, digest, created_ms FROM module_names WHERE tenant = $1 AND name = $2 AND ($3 = '' OR version = $3)
			ORDER BY created_ms DESC, version DESC LIMIT 1`, name, version)
		if err == nil && !found {
			if version != "" {
				name += "@" + version
			}
			err = database.ForCaller(fmt.Errorf("module %s: %w", name, ErrNoModule))
		}
		return err
	})
	return m, err
}

// DeleteModule deletes a module and its names. It fails with [ErrNoModule] if the tenant has no such module. It fails
// with [ErrInUse] if the newest version of the gateway refers to the module, or if a version of an agent refers to it
// that is the newest or that an alias or an active rollout refers to.
func (n *Tenant) DeleteModule(ctx context.Context, digest string) error {
	return n.update(ctx, func(t scoped) error {
		if err := checkAgentsWithout(t, digest); err != nil {
			return err
		}
		switch used, err := gatewayUses(t, digest); {
		case err != nil:
			return err
		case used:
			return database.ForCaller(fmt.Errorf(
				"sha256:%s: %w by the newest version of the gateway; store a version without the module, or delete the gateway first",
				digest,
				ErrInUse,
			))
		}
		deleted, err := t.Exec(`DELETE FROM tenant_modules WHERE tenant = $1 AND digest = $2`, digest)
		if err != nil {
			return err
		}
		if deleted == 0 {
			return database.ForCaller(fmt.Errorf("sha256:%s: %w", digest, ErrNoModule))
		}
		if _, err = t.Exec(`DELETE FROM module_names WHERE tenant = $1 AND digest = $2`, digest); err != nil {
			return err
		}
		return t.record(ctx, "module.delete", "sha256:"+digest, nil)
	})
}

// A ModuleUser is an agent that uses a module.
type ModuleUser struct {
	Agent    string
	Newest   int64    // the agent's newest version
	Versions []int64  // the versions that use the module, the newest first
	Aliases  []string // the aliases of these versions, ordered by name
}

// agentsWith selects the names of agents that use the module $2, at most $3 of them.
const agentsWith = `(SELECT name FROM agent_modules WHERE tenant = $1 AND digest = $2 ORDER BY name LIMIT $3)`

// ModuleUsers returns the agents that use a module in their newest version, or in one that an alias or an
// active rollout refers to, ordered by name. It returns at most limit of them, with all their versions that use
// the module.
func (n *Tenant) ModuleUsers(ctx context.Context, digest string, limit int) (users []ModuleUser, err error) {
	err = n.view(ctx, func(t scoped) error {
		users = nil
		at := map[string]int{}
		if err := t.Query(func(scan func(...any) error) error {
			var name string
			var version, newest int64
			if err := scan(&name, &version, &newest); err != nil {
				return err
			}
			i, ok := at[name]
			if !ok {
				i, at[name] = len(users), len(users)
				users = append(users, ModuleUser{Agent: name, Newest: newest})
			}
			users[i].Versions = append(users[i].Versions, version)
			return nil
		}, `SELECT agents.name, agents.version,
				(SELECT max(version) FROM agents newer WHERE newer.tenant = $1 AND newer.name = agents.name)
			FROM agents WHERE agents.tenant = $1 AND agents.name IN `+agentsWith+`
			AND agents.modules LIKE '%"' || $2 || '"%' ORDER BY agents.name, agents.version DESC`, digest, limit); err != nil {
			return err
		}
		return t.Query(func(scan func(...any) error) error {
			var name, alias string
			if err := scan(&name, &alias); err != nil {
				return err
			}
			if i, ok := at[name]; ok {
				users[i].Aliases = append(users[i].Aliases, alias)
			}
			return nil
		}, `SELECT agent_aliases.agent, agent_aliases.alias FROM agent_aliases
			JOIN agents ON agents.tenant = $1 AND agents.name = agent_aliases.agent AND agents.version = agent_aliases.version
			WHERE agent_aliases.tenant = $1 AND agent_aliases.agent IN `+agentsWith+`
			AND agents.modules LIKE '%"' || $2 || '"%' ORDER BY agent_aliases.agent, agent_aliases.alias`, digest, limit)
	})
	return users, err
}

// checkAgentsWithout fails with [ErrInUse] if an agent refers to a module in its newest version, or in one
// that an alias or an active rollout refers to. The error names one such version, and what to do.
func checkAgentsWithout(t scoped, digest string) error {
	var agent string
	if err := t.row([]any{&agent},
		`SELECT name FROM agent_modules WHERE tenant = $1 AND digest = $2 ORDER BY name LIMIT 1`, digest); err != nil || agent == "" {
		return err
	}
	var version, newest int64
	var alias, rollout string
	if err := t.row([]any{&version, &newest, &alias, &rollout}, `SELECT version,
			(SELECT max(version) FROM agents WHERE tenant = $1 AND name = $2),
			COALESCE((SELECT min(alias) FROM agent_aliases
				WHERE tenant = $1 AND agent = $2 AND agent_aliases.version = agents.version), ''),
			COALESCE((SELECT min(id) FROM rollouts WHERE tenant = $1 AND agent = $2 AND ended_ms = 0
				AND (stable_version = agents.version OR canary_version = agents.version)), '')
		FROM agents WHERE tenant = $1 AND name = $2 AND modules LIKE '%"' || $3 || '"%' AND (version IN (`+referred+`)
			OR version = (SELECT max(version) FROM agents WHERE tenant = $1 AND name = $2))
		ORDER BY version DESC LIMIT 1`, agent, digest); err != nil {
		return err
	}
	var remedies []string
	if version == newest || rollout == "" && alias == "" {
		remedies = append(remedies, "store a version without the module")
	}
	if rollout != "" {
		remedies = append(remedies, "end rollout "+rollout)
	}
	if alias != "" {
		remedies = append(remedies, "move alias "+alias)
	}
	return database.ForCaller(fmt.Errorf("sha256:%s: %w by version %d of agent %s; %s, or delete the agent first",
		digest, ErrInUse, version, agent, strings.Join(remedies, " and ")))
}
