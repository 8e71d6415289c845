// Package migrations holds the schema of the store as numbered SQL files, and updates databases to
// this schema.
//
// During an upgrade, servers of two successive versions use one database, which has the newer
// version's migrations. A change therefore takes several versions. The first version adds columns
// with defaults, tables and indexes, and writes the old and the new form. The next version reads only
// the new form. The version after that removes the old form; its migration is a contract. This also
// applies to JSON in the store, such as the journals of runs: a version must be able to read a new
// field before the next version writes data that needs the field.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// files holds the migrations. A released file never changes: later changes of the schema are new
// files with higher numbers. Numbers without a file stay unused, because databases may have later
// migrations already.
//
//go:embed *.sql
var files embed.FS

// contract is the first line of a migration after which servers of the previous version do not work,
// for example because it removes a column. All other migrations only add what these servers ignore.
// After them, servers of the previous version can continue to run, and can be started.
const contract = "-- contract"

// Apply executes the migrations that a database lacks. If two processes start at once, one of them
// executes the migrations while the other waits. The database may have migrations that this program
// does not know, unless one of them is a contract: then Apply fails with a [*database.Error] of kind
// [database.Newer].
func Apply(ctx context.Context, db database.DB) error { return apply(ctx, db, files) }

func apply(ctx context.Context, db database.DB, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	if complete(ctx, db, names) {
		return nil // no lock is needed
	}
	return db.Exclusive(ctx, func(t database.Tx) error {
		done, err := prepare(t, names)
		if err != nil {
			return err
		}
		if err := known(names, done); err != nil {
			return err
		}
		for _, name := range names {
			if _, ok := done[name]; ok {
				continue
			}
			b, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if err := execute(t, name, string(b)); err != nil {
				return err
			}
			if done[name] = strings.HasPrefix(string(b), contract+"\n"); done[name] {
				_, err = t.Exec("INSERT INTO migrations (name, contract) VALUES ($1, 1)", name)
			} else {
				_, err = t.Exec("INSERT INTO migrations (name, contract) VALUES ($1, 0)", name)
			}
			if err != nil {
				return err
			}
		}
		return setVersion(t, len(done))
	})
}

// complete reports whether a database has all migrations of this program, and no contract that this
// program does not have.
func complete(ctx context.Context, db database.DB, names []string) bool {
	err := db.View(ctx, func(t database.Tx) error {
		done, err := applied(t)
		if err != nil {
			return err // the database is empty, or of a version that counted migrations
		}
		for _, name := range names {
			if _, ok := done[name]; !ok {
				return errors.New("a migration is missing")
			}
		}
		return known(names, done)
	})
	return err == nil
}

// prepare creates the tables of migrations if necessary, and returns the applied migrations. Older
// versions stored only the number of migrations; prepare adds these migrations to the table.
func prepare(t database.Tx, names []string) (map[string]bool, error) {
	for _, table := range []string{
		"CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL PRIMARY KEY, contract BIGINT NOT NULL)",
	} {
		if _, err := t.Exec(table); err != nil {
			return nil, err
		}
	}
	done, err := applied(t)
	if err != nil || len(done) > 0 {
		return done, err
	}
	var n int64
	if _, err := database.One(t, "SELECT version FROM schema_version", nil, &n); err != nil {
		return nil, err
	}
	if int(n) > len(names) {
		return nil, newer(fmt.Sprintf("its schema has version %d; this program knows versions up to %d", n, len(names)))
	}
	for _, name := range names[:n] {
		if _, err := t.Exec("INSERT INTO migrations (name, contract) VALUES ($1, 1)", name); err != nil {
			return nil, err
		}
		done[name] = true
	}
	return done, nil
}

// applied returns the migrations that a database has, and whether each is a contract.
func applied(t database.Tx) (map[string]bool, error) {
	done := map[string]bool{}
	err := t.Query(func(scan func(...any) error) error {
		var name string
		var breaks int64
		err := scan(&name, &breaks)
		done[name] = breaks != 0
		return err
	}, "SELECT name, contract FROM migrations")
	return done, err
}

// known returns an error if a database has a contract that is not among names.
func known(names []string, done map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(done)) {
		if done[name] && !slices.Contains(names, name) {
			return newer(fmt.Sprintf("its schema has the migration %s, which this program does not know", name))
		}
	}
	return nil
}

func newer(what string) error {
	return database.ForCaller(&database.Error{Kind: database.Newer, Err: errors.New(what)})
}

// setVersion stores the number of migrations for older versions, which read only this number. They
// refuse a database with more migrations than they have.
func setVersion(t database.Tx, n int) error {
	if _, err := t.Exec("DELETE FROM schema_version"); err != nil {
		return err
	}
	_, err := t.Exec("INSERT INTO schema_version (version) VALUES ($1)", int64(n))
	return err
}

// Execute executes the statements of one migration, such as "0001_runs.sql".
func Execute(t database.Tx, name string) error {
	b, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	return execute(t, name, string(b))
}

func execute(t database.Tx, name, text string) error {
	for _, statement := range strings.Split(withoutComments(text), ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := t.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// withoutComments removes lines that are comments, which may contain semicolons.
func withoutComments(sql string) string {
	var out strings.Builder
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(line, "--") {
			out.WriteString(line)
		}
	}
	return out.String()
}
