package store

import (
	"context"
	"maps"
	"strings"
)

// Plans is how a store of SQLite's finds the rows of each statement that it has used: the
// steps of the database's plan, a line each.
func Plans(ctx context.Context, s Store) (map[string]string, error) {
	d := s.(*store).database.(*sqliteDB)
	plans := map[string]string{}
	explain := func(c *sqliteConn) error {
		for text := range maps.Clone(c.known) {
			if verb, _, _ := strings.Cut(strings.TrimSpace(text), " "); verb != "SELECT" && verb != "INSERT" && verb != "UPDATE" && verb != "DELETE" {
				continue
			}
			var steps []string
			if err := c.query(func(scan func(...any) error) error {
				var id, parent, unused int64
				var step string
				err := scan(&id, &parent, &unused, &step)
				steps = append(steps, step)
				return err
			}, "EXPLAIN QUERY PLAN "+text, make([]any, 32)...); err != nil {
				return err
			}
			plans[text] = strings.Join(steps, "\n")
		}
		return nil
	}
	// What the writer knows is the writing goroutine's.
	if err := d.update(ctx, true, func(tx) error { return explain(d.writer) }); err != nil {
		return nil, err
	}
	for range readers {
		c := <-d.idle
		defer func() { d.idle <- c }()
		if err := explain(c); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// Migrate makes the changes of one migration.
func Migrate(ctx context.Context, s Store, name string) error {
	own := s.(*store)
	return own.exclusive(ctx, func(t tx) error { return migrateWith(t, name) })
}
