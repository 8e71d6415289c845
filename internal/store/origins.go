package store

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// SetOrigins replaces the origins whose pages may use the tenant's tokens.
func (n *Tenant) SetOrigins(ctx context.Context, origins []string) error {
	return n.update(ctx, func(t scoped) error {
		before, err := originsIn(t)
		if err != nil {
			return err
		}
		after := slices.Compact(slices.Sorted(slices.Values(origins)))
		if slices.Equal(before, after) {
			return nil
		}
		if _, err := t.Exec(`DELETE FROM origins WHERE tenant = $1`); err != nil {
			return err
		}
		for _, o := range after {
			if _, err := t.Exec(`INSERT INTO origins (tenant, origin) VALUES ($1, $2)`, o); err != nil {
				return err
			}
		}
		return t.record(ctx, "cors.set", "", change{before, after})
	})
}

// Origins returns the origins whose pages may use the tenant's tokens, in order.
func (n *Tenant) Origins(ctx context.Context) (origins []string, err error) {
	err = n.view(ctx, func(t scoped) error {
		origins, err = originsIn(t)
		return err
	})
	return origins, err
}

func originsIn(t scoped) (origins []string, err error) {
	err = t.Query(func(scan func(...any) error) error {
		var o string
		err := scan(&o)
		origins = append(origins, o)
		return err
	}, `SELECT origin FROM origins WHERE tenant = $1 ORDER BY origin`)
	return origins, err
}

// HasOrigin reports whether exact or wildcard is one of the tenant's origins.
func (n *Tenant) HasOrigin(ctx context.Context, exact, wildcard string) (found bool, err error) {
	var count int64
	err = n.view(ctx, func(t scoped) error {
		return t.row([]any{&count}, `SELECT count(*) FROM origins WHERE tenant = $1 AND origin IN ($2, $3)`, exact, wildcard)
	})
	return count > 0, err
}

// HasOrigin implements [Platform].
func (s *store) HasOrigin(ctx context.Context, exact, wildcard string) (found bool, err error) {
	var count int64
	err = s.db.View(ctx, func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*) FROM (SELECT 1 FROM origins WHERE origin IN ($1, $2) LIMIT 1) AS found`,
			[]any{exact, wildcard}, &count)
		return err
	})
	return count > 0, err
}
