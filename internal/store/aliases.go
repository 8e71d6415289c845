package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// StableAlias is the alias that a reference to an agent without a version means, if the agent has it.
const StableAlias = "stable"

// Limits on the aliases of an agent.
const (
	maxAliases    = 50
	maxAliasMoves = 1000 // maximum number of stored moves of an agent's aliases; the oldest are deleted
)

// An Alias is a name of a version of an agent.
type Alias struct {
	Name    string
	Version int64
	Updated time.Time
}

// An AliasMove is a change of an alias.
type AliasMove struct {
	Alias   string
	From    int64 // the version before; 0 if the alias did not exist
	To      int64 // the version since; 0 if the alias was deleted
	By      string
	Reason  string
	Created time.Time

	number int64
}

// An AliasChange holds the actor of a move of an alias, and the reason.
type AliasChange struct {
	By     string // such as "key abc" or "rollout ro_abc"
	Reason string // optional
}

func scanAlias(scan func(...any) error) (a Alias, err error) {
	var updated int64
	err = scan(&a.Name, &a.Version, &updated)
	a.Updated = time.UnixMilli(updated)
	return a, err
}

// aliasIn returns an alias of an agent, or nil if the agent has no such alias.
func aliasIn(t scoped, agent, name string) (a *Alias, err error) {
	err = t.Query(func(scan func(...any) error) error {
		read, err := scanAlias(scan)
		a = &read
		return err
	}, `SELECT alias, version, updated_ms FROM agent_aliases WHERE tenant = $1 AND agent = $2 AND alias = $3`, agent, name)
	return a, err
}

func noAlias(agent, name string) error {
	return database.ForCaller(fmt.Errorf("agent %s: alias %s: %w", agent, name, ErrNoAlias))
}

// SetAlias makes name an alias of a version of an agent, and returns it. It fails with [ErrNoAgent] if
// the agent has no such version, such as 0, with [ErrInUse] while a rollout moves the alias, and with a
// [*QuotaError] if the agent has 50 aliases.
func (n *Tenant) SetAlias(
	ctx context.Context,
	agent, name string,
	version int64,
	by AliasChange,
) (a *Alias, err error) {
	err = n.update(ctx, func(t scoped) error {
		if err := checkVersion(t, agent, version); err != nil {
			return err
		}
		if err := checkNoRollout(t, agent, name); err != nil {
			return err
		}
		if a, err = aliasIn(t, agent, name); err != nil {
			return err
		}
		if a == nil {
			err := checkCount(t, "aliases", maxAliases,
				`SELECT count(*) FROM agent_aliases WHERE tenant = $1 AND agent = $2`, agent)
			if err != nil {
				return err
			}
		}
		if err := moveAlias(t, agent, name, a, version, by); err != nil {
			return err
		}
		if a, err = aliasIn(t, agent, name); err != nil {
			return err
		}
		return t.record(ctx, "alias.set", agent+"@"+name, map[string]int64{"version": version})
	})
	return a, err
}

// moveAlias sets the version of an alias, and stores the move. before is the alias before the move,
// or nil if it does not exist. moveAlias does nothing if the alias has the version already.
func moveAlias(t scoped, agent, name string, before *Alias, version int64, by AliasChange) error {
	from := int64(0)
	if before != nil {
		from = before.Version
	}
	if from == version {
		return nil
	}
	if _, err := t.Exec(
		`INSERT INTO agent_aliases (tenant, agent, alias, version, updated_ms) VALUES ($1, $2, $3, $4, NOW_MS)
		ON CONFLICT (tenant, agent, alias) DO UPDATE SET version = $4, updated_ms = NOW_MS`,
		agent, name, version); err != nil {
		return err
	}
	if err := insertMove(t, agent, name, from, version, by); err != nil {
		return err
	}
	return refreshAgentModules(t, agent)
}

// insertMove stores a change of an alias, and deletes the oldest ones beyond the limit.
func insertMove(t scoped, agent, name string, from, to int64, by AliasChange) error {
	var last int64
	if err := t.row([]any{&last},
		`SELECT COALESCE(max(move), 0) FROM agent_alias_moves WHERE tenant = $1 AND agent = $2`, agent); err != nil {
		return err
	}
	if _, err := t.Exec(
		`INSERT INTO agent_alias_moves (tenant, agent, move, alias, from_version, to_version, moved_by, reason, created_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NOW_MS)`,
		agent, last+1, name, from, to, by.By, by.Reason); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM agent_alias_moves WHERE tenant = $1 AND agent = $2 AND move <= $3`,
		agent, last+1-maxAliasMoves)
	return err
}

// DeleteAlias deletes an alias of an agent. It fails with [ErrNoAlias] if the agent has no such alias,
// and with [ErrInUse] while a rollout moves it.
func (n *Tenant) DeleteAlias(ctx context.Context, agent, name string, by AliasChange) error {
	return n.update(ctx, func(t scoped) error {
		if err := checkNoRollout(t, agent, name); err != nil {
			return err
		}
		a, err := aliasIn(t, agent, name)
		if err != nil {
			return err
		}
		if a == nil {
			return noAlias(agent, name)
		}
		if _, err := t.Exec(`DELETE FROM agent_aliases WHERE tenant = $1 AND agent = $2 AND alias = $3`,
			agent, name); err != nil {
			return err
		}
		if err := insertMove(t, agent, name, a.Version, 0, by); err != nil {
			return err
		}
		if err := refreshAgentModules(t, agent); err != nil {
			return err
		}
		return t.record(ctx, "alias.delete", agent+"@"+name, nil)
	})
}

// Aliases returns a page of the aliases of an agent, ordered by name, and the position of its last alias
// if more follow. It fails with [ErrNoAgent] if the tenant has no such agent.
func (n *Tenant) Aliases(ctx context.Context, agent string, p Page) (aliases []Alias, next *Position, err error) {
	err = n.view(ctx, func(t scoped) (err error) {
		if _, err := agentIn(t, agent, 0); err != nil {
			return err
		}
		aliases, next, err = list(t, p, scanAlias, func(a *Alias) Position { return Position{Name: a.Name} },
			`SELECT alias, version, updated_ms FROM agent_aliases WHERE tenant = $1 AND agent = $2 AND alias > $3
			ORDER BY alias LIMIT $4`, agent, p.name())
		return err
	})
	return aliases, next, err
}

// readAliases sets the aliases of agents, which must be ordered by name.
func readAliases(t scoped, agents []StoredAgent) error {
	if len(agents) == 0 {
		return nil
	}
	at := map[string]*StoredAgent{}
	for i := range agents {
		at[agents[i].Name] = &agents[i]
	}
	return t.Query(func(scan func(...any) error) error {
		var agent string
		alias, err := scanAlias(func(out ...any) error { return scan(append([]any{&agent}, out...)...) })
		if a := at[agent]; a != nil {
			a.Aliases = append(a.Aliases, alias)
		}
		return err
	}, `SELECT agent, alias, version, updated_ms FROM agent_aliases WHERE tenant = $1 AND agent >= $2 AND agent <= $3
		ORDER BY agent, alias`, agents[0].Name, agents[len(agents)-1].Name)
}

// AliasMoves returns a page of the moves of an agent's alias, the newest first, and the position of its last move if
// more follow. The moves of a deleted alias are stored until the agent is deleted. AliasMoves fails with [ErrNoAgent]
// if the tenant has no such agent.
func (n *Tenant) AliasMoves(
	ctx context.Context,
	agent, name string,
	p Page,
) (moves []AliasMove, next *Position, err error) {
	before := int64(1) << 62
	if p.After != nil {
		before, _ = strconv.ParseInt(p.After.Name, 10, 64)
	}
	err = n.view(ctx, func(t scoped) (err error) {
		if _, err := agentIn(t, agent, 0); err != nil {
			return err
		}
		moves, next, err = list(t, p, func(scan func(...any) error) (m AliasMove, err error) {
			var created int64
			err = scan(&m.number, &m.Alias, &m.From, &m.To, &m.By, &m.Reason, &created)
			m.Created = time.UnixMilli(created)
			return m, err
		}, func(m *AliasMove) Position { return Position{Name: strconv.FormatInt(m.number, 10)} },
			`SELECT move, alias, from_version, to_version, moved_by, reason, created_ms FROM agent_alias_moves
			WHERE tenant = $1 AND agent = $2 AND alias = $3 AND move < $4 ORDER BY move DESC LIMIT $5`, agent, name, before)
		return err
	})
	return moves, next, err
}

// checkNoRollout fails with [ErrInUse] if an active rollout moves an alias.
func checkNoRollout(t scoped, agent, alias string) error {
	var id string
	if err := t.row([]any{&id}, `SELECT id FROM rollouts WHERE tenant = $1 AND agent = $2 AND alias = $3 AND ended_ms = 0`,
		agent, alias); err != nil || id == "" {
		return err
	}
	return database.ForCaller(
		fmt.Errorf("alias %s: %w: rollout %s moves it; promote or abort that first", alias, ErrInUse, id),
	)
}
