package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A StoredAgent is a version of an agent.
type StoredAgent struct {
	Name    string
	Version int64 // from 1
	Digest  string
	Body    []byte   // the agent.yaml
	Modules []string // digests of the modules that it names
	Created time.Time
}

// How many agents a tenant has at most, and how many versions of one are kept.
const (
	maxAgents        = 1000
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
		return nil, ownError{&Error{Corrupt, "", fmt.Errorf("agent %s: %w", a.Name, err)}}
	}
	return &a, nil
}

// PutAgent keeps another version of an agent, unless it is the same as the
// newest, and returns the version that it is. Of many versions the oldest goes.
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
		} else if err := fewer(t, "agents", maxAgents, `SELECT count(*) FROM agent_room WHERE tenant = $1`); err != nil {
			return err
		}
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		if err := roomForBytes(t, info.Quota, int64(len(body))); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO agents (tenant, name, version, digest, body, modules, created_ms) VALUES ($1, $2, $3, $4, $5, $6, NOW_MS)`,
			name, version, digest, body, list); err != nil {
			return err
		}
		if err := keptAgent(t, name, version, int64(len(body)), modules); err != nil {
			return err
		}
		a, err = newestAgent(t, name)
		return err
	})
	return a, err
}

// keptAgent lets the oldest of many versions go, and counts what there is of an agent when
// another version was kept.
func keptAgent(t scoped, name string, version, size int64, modules []string) error {
	var gone int64
	if err := t.query(func(scan func(...any) error) error { return scan(&gone) },
		`SELECT CAST(COALESCE(sum(length(body)), 0) AS BIGINT) FROM agents WHERE tenant = $1 AND name = $2 AND version <= $3`, name, version-maxAgentVersions); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM agents WHERE tenant = $1 AND name = $2 AND version <= $3`, name, version-maxAgentVersions); err != nil {
		return err
	}
	if _, err := t.exec(`INSERT INTO agent_room (tenant, name, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, name) DO UPDATE SET bytes = agent_room.bytes + $3`, name, size-gone); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM agent_modules WHERE tenant = $1 AND name = $2`, name); err != nil {
		return err
	}
	for _, digest := range modules {
		if _, err := t.exec(`INSERT INTO agent_modules (tenant, digest, name) VALUES ($1, $2, $3) ON CONFLICT (tenant, digest, name) DO NOTHING`, digest, name); err != nil {
			return err
		}
	}
	return nil
}

func newestAgent(t scoped, name string) (a *StoredAgent, err error) {
	err = t.query(func(scan func(...any) error) error {
		a, err = scanAgent(scan)
		return err
	}, `SELECT `+agentColumns+` FROM agents WHERE tenant = $1 AND name = $2 ORDER BY version DESC LIMIT 1`, name)
	return a, err
}

// Agent returns a version of an agent, the newest if that is 0, or fails with
// [ErrNoAgent].
func (n *Tenant) Agent(ctx context.Context, name string, version int64) (a *StoredAgent, err error) {
	err = n.view(ctx, func(t scoped) error {
		a, err = agentIn(t, name, version)
		return err
	})
	return a, err
}

func agentIn(t scoped, name string, version int64) (a *StoredAgent, err error) {
	err = t.query(func(scan func(...any) error) error {
		a, err = scanAgent(scan)
		return err
	}, `SELECT `+agentColumns+` FROM agents WHERE tenant = $1 AND name = $2 AND ($3 = 0 OR version = $3) ORDER BY version DESC LIMIT 1`, name, version)
	if err == nil && a == nil {
		err = ownError{fmt.Errorf("agent %s: %w", name, ErrNoAgent)}
	}
	return a, err
}

// Parts are what an agent is made of, all as they were at one moment.
type Parts struct {
	Info    *TenantInfo
	Agent   *StoredAgent
	Around  *StoredAgent // an agent of the operator's; nil if there is none
	Secrets []SecretInfo
}

// Parts returns what a version of an agent is made of, the newest if that is 0, with a
// version of an agent of the operator's, if around names one. It fails with [ErrNoAgent]
// if the tenant has no such agent, and with [ErrNoTenant].
func (n *Tenant) Parts(ctx context.Context, name string, version int64, around string, aroundVersion int64) (*Parts, error) {
	var p Parts
	err := n.view(ctx, func(t scoped) (err error) {
		if p.Info, err = tenantIn(t.tx, n.id); err != nil {
			return err
		}
		if p.Agent, err = agentIn(t, name, version); err != nil {
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

// Agents returns a page of the tenant's agents in the order of their names, each in its
// newest version, and the position of its last agent if more follow.
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
			ORDER BY name LIMIT $3`, p.name())
		return err
	})
	return agents, next, err
}

// AgentNames returns the name and the creation time of each agent's newest version, in
// the order of their names. A tenant has at most 1,000 agents.
func (n *Tenant) AgentNames(ctx context.Context) (agents []StoredAgent, err error) {
	err = n.view(ctx, func(t scoped) error {
		return t.query(func(scan func(...any) error) error {
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

// agentWith names an agent whose newest version names a module, if there is one.
func agentWith(t scoped, digest string) (name string, err error) {
	err = t.query(func(scan func(...any) error) error { return scan(&name) },
		`SELECT name FROM agent_modules WHERE tenant = $1 AND digest = $2 ORDER BY name LIMIT 1`, digest)
	return name, err
}

// DeleteAgent forgets an agent with all its versions, or fails with [ErrNoAgent].
// Its runs stay.
func (n *Tenant) DeleteAgent(ctx context.Context, name string) error {
	return n.update(ctx, func(t scoped) error {
		gone, err := t.exec(`DELETE FROM agents WHERE tenant = $1 AND name = $2`, name)
		if err == nil && gone == 0 {
			err = ownError{fmt.Errorf("agent %s: %w", name, ErrNoAgent)}
		}
		for _, table := range []string{"agent_room", "agent_modules"} {
			if err == nil {
				_, err = t.exec(`DELETE FROM `+table+` WHERE tenant = $1 AND name = $2`, name)
			}
		}
		return err
	})
}
