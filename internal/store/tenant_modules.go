package store

import (
	"context"
	"encoding/json"
	"fmt"
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
