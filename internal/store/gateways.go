package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A StoredGateway is a version of a tenant's gateway. A tenant has at most one gateway.
type StoredGateway struct {
	Version int64 // starts at 1
	Digest  string
	Body    []byte   // content of gateway.yaml
	Modules []string // digests of the modules that it refers to
	Created time.Time
}

// maxGatewayVersions is the maximum number of versions of a gateway. The oldest are deleted.
const maxGatewayVersions = 100

const gatewayColumns = `version, digest, body, modules, created_ms`

func scanGateway(scan func(...any) error) (*StoredGateway, error) {
	var g StoredGateway
	var body []byte
	var modules string
	var created int64
	if err := scan(&g.Version, &g.Digest, &body, &modules, &created); err != nil {
		return nil, err
	}
	g.Body, g.Created = bytes.Clone(body), time.UnixMilli(created)
	if err := json.Unmarshal([]byte(modules), &g.Modules); err != nil {
		return nil, database.Corruptf("a tenant's gateway: %w", err)
	}
	return &g, nil
}

// PutGateway stores a new version of the tenant's gateway and returns it. If the newest version is
// equal, PutGateway returns the newest version instead. It deletes all but the newest 100 versions.
// It fails with a [*QuotaError] if the tenant's storage quota is reached.
func (n *Tenant) PutGateway(ctx context.Context, body []byte, modules []string) (g *StoredGateway, err error) {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	list, err := marshal(append([]string{}, modules...))
	if err != nil {
		return nil, err
	}
	err = n.update(ctx, func(t scoped) error {
		newest, err := gatewayIn(t, 0)
		if err != nil && !errors.Is(err, ErrNoGateway) {
			return err
		}
		version := int64(1)
		if newest != nil {
			if newest.Digest == digest && slices.Equal(newest.Modules, modules) {
				g = newest
				return nil
			}
			version = newest.Version + 1
		}
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		if err := checkStorage(t, info.Quota, int64(len(body))); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO tenant_gateways (tenant, `+gatewayColumns+`) VALUES ($1, $2, $3, $4, $5, NOW_MS)`,
			version, digest, body, list); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM tenant_gateways WHERE tenant = $1 AND version <= $2`,
			version-maxGatewayVersions); err != nil {
			return err
		}
		if g, err = gatewayIn(t, 0); err != nil {
			return err
		}
		return t.record(ctx, "gateway.put", "gateway", map[string]any{"version": version, "digest": digest})
	})
	return g, err
}

// Gateway returns a version of the tenant's gateway, or the newest one if version is 0. It fails with
// [ErrNoGateway] if the tenant has no gateway or no such version.
func (n *Tenant) Gateway(ctx context.Context, version int64) (g *StoredGateway, err error) {
	err = n.view(ctx, func(t scoped) error {
		g, err = gatewayIn(t, version)
		return err
	})
	return g, err
}

func gatewayIn(t scoped, version int64) (g *StoredGateway, err error) {
	err = t.Query(func(scan func(...any) error) error {
		g, err = scanGateway(scan)
		return err
	}, `SELECT `+gatewayColumns+` FROM tenant_gateways WHERE tenant = $1 AND (CAST($2 AS BIGINT) = 0 OR version = $2)
		ORDER BY version DESC LIMIT 1`, version)
	if err == nil && g == nil {
		err = database.ForCaller(ErrNoGateway)
	}
	return g, err
}

// DeleteGateway deletes all versions of the tenant's gateway. It fails with [ErrNoGateway] if the
// tenant has none.
func (n *Tenant) DeleteGateway(ctx context.Context) error {
	return n.update(ctx, func(t scoped) error {
		deleted, err := t.Exec(`DELETE FROM tenant_gateways WHERE tenant = $1`)
		if err == nil && deleted == 0 {
			err = database.ForCaller(ErrNoGateway)
		}
		if err != nil {
			return err
		}
		return t.record(ctx, "gateway.delete", "gateway", nil)
	})
}

// gatewayUses reports whether the newest version of the tenant's gateway refers to a module.
func gatewayUses(t scoped, digest string) (bool, error) {
	g, err := gatewayIn(t, 0)
	if errors.Is(err, ErrNoGateway) {
		return false, nil
	}
	return err == nil && slices.Contains(g.Modules, digest), err
}

// A GatewaySnapshot holds a tenant's gateway and the data to serve it, read in one transaction.
type GatewaySnapshot struct {
	Info    *TenantInfo
	Gateway *StoredGateway
	Around  *StoredAgent // the operator's agent with the rings; nil if there is none
	Secrets []SecretInfo
}

// GatewaySnapshot returns the newest version of the tenant's gateway together with the operator's
// agent that around names, if around is not empty. It fails with [ErrNoGateway] if the tenant has no
// gateway, and with a [*QuotaError] if one of the quotas runs_per_day, tokens_per_day and
// fuel_per_day does not allow another request.
func (n *Tenant) GatewaySnapshot(ctx context.Context, around string) (*GatewaySnapshot, error) {
	var p GatewaySnapshot
	err := n.view(ctx, func(t scoped) (err error) {
		if p.Gateway, err = gatewayIn(t, 0); err != nil {
			return err
		}
		if p.Info, err = tenantIn(t.tx, n.id); err != nil {
			return err
		}
		if err := checkDay(t, p.Info.Quota); err != nil {
			return err
		}
		if p.Secrets, _, err = secretsIn(t, Page{Limit: maxSecrets}); err != nil || around == "" {
			return err
		}
		if p.Around, err = agentIn(scoped{t.tx, Operator}, around, 0); errors.Is(err, ErrNoAgent) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// checkDay fails with a [*QuotaError] if the tenant's usage of the day does not allow another run. The
// operator has no quotas.
func checkDay(t scoped, q TenantQuota) error {
	if t.tenant == Operator {
		return nil
	}
	now, err := nowIn(t.tx)
	if err != nil {
		return err
	}
	used, err := usageOn(t, now.UTC())
	if err != nil {
		return err
	}
	return used.check(q, 1)
}
