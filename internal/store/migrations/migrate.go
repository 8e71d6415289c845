// Package migrations holds the schema of the store as numbered SQL files, and updates databases
// to it.
package migrations

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// files holds the migrations. A released file never changes: later changes of the schema are
// new files.
//
//go:embed *.sql
var files embed.FS

// Apply executes the migrations that a database lacks. If two processes start at once, one of
// them executes the migrations while the other waits. Apply fails with a [*database.Error] of
// kind [database.Newer] if the database has more migrations than this program.
func Apply(ctx context.Context, db database.DB) error {
	entries, err := files.ReadDir(".")
	if err != nil {
		return err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	if done, err := version(ctx, db); err == nil && done == len(names) {
		return nil // no lock is needed
	}
	return db.Exclusive(ctx, func(t database.Tx) error {
		if _, err := t.Exec("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"); err != nil {
			return err
		}
		done, err := versionIn(t)
		if err != nil {
			return err
		}
		if done > len(names) {
			return database.ForCaller(&database.Error{Kind: database.Newer,
				Err: fmt.Errorf("its schema has version %d; this program knows versions up to %d", done, len(names))})
		}
		for _, name := range names[done:] {
			if err := Execute(t, name); err != nil {
				return err
			}
		}
		if _, err := t.Exec("DELETE FROM schema_version"); err != nil {
			return err
		}
		_, err = t.Exec("INSERT INTO schema_version (version) VALUES ($1)", int64(len(names)))
		return err
	})
}

// Execute executes the statements of one migration, such as "0001_runs.sql".
func Execute(t database.Tx, name string) error {
	b, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	for _, statement := range strings.Split(withoutComments(string(b)), ";") {
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

// version returns the number of migrations that a database has. It fails if the database
// is empty.
func version(ctx context.Context, db database.DB) (n int, err error) {
	err = db.View(ctx, func(t database.Tx) error {
		n, err = versionIn(t)
		return err
	})
	return n, err
}

func versionIn(t database.Tx) (int, error) {
	var n int64
	_, err := database.One(t, "SELECT version FROM schema_version", nil, &n)
	return int(n), err
}
