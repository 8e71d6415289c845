package store

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
)

// The changes of the schema, in their order. One that was released is never
// changed: another one follows it.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate makes the changes of the schema that the database does not have yet.
// Of two processes that start at once, one makes them while the other waits.
func (s *store) migrate(ctx context.Context) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	slices.Sort(names)
	if done, err := s.version(ctx); err == nil && done == len(names) {
		return nil // the usual case, which needs no lock
	}
	return s.exclusive(ctx, func(t tx) error {
		if _, err := t.exec("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"); err != nil {
			return err
		}
		done, err := versionIn(t)
		if err != nil {
			return err
		}
		if done > len(names) {
			return ownError{&Error{Newer, "", fmt.Errorf("its schema has version %d; this program knows %d", done, len(names))}}
		}
		for _, name := range names[done:] {
			if err := migrateWith(t, name); err != nil {
				return err
			}
		}
		if _, err := t.exec("DELETE FROM schema_version"); err != nil {
			return err
		}
		_, err = t.exec("INSERT INTO schema_version (version) VALUES ($1)", int64(len(names)))
		return err
	})
}

// migrateWith makes the changes of one file.
func migrateWith(t tx, name string) error {
	b, err := migrations.ReadFile("migrations/" + name)
	if err != nil {
		return err
	}
	for _, statement := range strings.Split(withoutComments(string(b)), ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := t.exec(statement); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func withoutComments(sql string) string {
	var out strings.Builder
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(line, "--") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// version is how many changes the database has; an error if it has no tables.
func (s *store) version(ctx context.Context) (n int, err error) {
	err = s.view(ctx, func(t tx) error {
		n, err = versionIn(t)
		return err
	})
	return n, err
}

func versionIn(t tx) (int, error) {
	var n int64
	_, err := one(t, "SELECT version FROM schema_version", nil, &n)
	return int(n), err
}
