package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
	if version == newest {
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
