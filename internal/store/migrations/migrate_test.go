package migrations

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/postgres"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

// with returns the migrations of this version and one more, like those of a newer version.
func with(t *testing.T, name, text string) fs.FS {
	t.Helper()
	more := fstest.MapFS{name: {Data: []byte(text)}}
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		b, err := files.ReadFile(name)
		require.NoError(t, err)
		more[name] = &fstest.MapFile{Data: b}
	}
	return more
}

// TestVersions checks which databases of other versions a program opens.
func TestVersions(t *testing.T) {
	t.Parallel()
	const expand = "ALTER TABLE runs ADD COLUMN mood TEXT NOT NULL DEFAULT '';\n"
	for driver, open := range map[string]func(t *testing.T) database.DB{
		"sqlite": func(t *testing.T) database.DB {
			db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
			require.NoError(t, err)
			return db
		},
		"postgres": func(t *testing.T) database.DB {
			db, err := postgres.Open(t.Context(), postgrestest.Start(t).Create(t, "versions"))
			require.NoError(t, err)
			return db
		},
	} {
		for name, tc := range map[string]struct {
			of   fs.FS
			fail string
		}{
			"same":              {files, ""},
			"newer":             {with(t, "9999_mood.sql", expand), ""},
			"newer, in between": {with(t, "0001_z.sql", expand), ""},
			"newer, contract": {
				with(t, "9999_mood.sql", contract+"\n"+expand),
				"its schema has the migration 9999_mood.sql, which this program does not know",
			},
		} {
			t.Run(driver+"/"+name, func(t *testing.T) {
				t.Parallel()
				db := open(t)
				defer db.Close()
				require.NoError(t, apply(t.Context(), db, tc.of))
				for range 2 {
					err := Apply(t.Context(), db)
					if tc.fail == "" {
						require.NoError(t, err)
						continue
					}
					var failed *database.Error
					require.ErrorAs(t, err, &failed)
					require.Equal(t, database.Newer, failed.Kind)
					require.ErrorContains(t, err, tc.fail)
				}
				require.NoError(t, apply(t.Context(), db, tc.of), "the newer version opens it again")
			})
		}
	}
}

// TestCounted checks that migrations are not repeated on a database of an older version, which has
// only the number of its migrations.
func TestCounted(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Exclusive(t.Context(), func(tx database.Tx) error {
		_, err := tx.Exec("CREATE TABLE schema_version (version BIGINT NOT NULL)")
		return errors.Join(err, Execute(tx, "0001_runs.sql"), Execute(tx, "0002_values.sql"), setVersion(tx, 2))
	}))
	require.NoError(t, Apply(t.Context(), db))
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	require.NoError(t, db.View(t.Context(), func(tx database.Tx) error {
		done, err := applied(tx)
		require.Len(t, done, len(names))
		require.ElementsMatch(t, names, slices.Collect(maps.Keys(done)))
		return err
	}))
}

// TestContracts checks that each migration after which servers of the previous version do not work
// begins with the line of a contract.
func TestContracts(t *testing.T) {
	breaks := regexp.MustCompile(
		`(?i)\b(DROP (TABLE|COLUMN|DEFAULT)|RENAME|SET NOT NULL|ALTER COLUMN|ADD (CONSTRAINT|UNIQUE)|CREATE UNIQUE INDEX|CREATE TRIGGER)`,
	)
	column := regexp.MustCompile(`(?i)\bADD COLUMN\b[^;]*\bNOT NULL\b`)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		if name < "0031" { // servers of these versions could not run side by side
			continue
		}
		b, err := files.ReadFile(name)
		require.NoError(t, err)
		if strings.HasPrefix(string(b), contract+"\n") {
			continue
		}
		for statement := range strings.SplitSeq(withoutComments(string(b)), ";") {
			require.NotRegexp(t, breaks, statement, "%s: begin the file with %q, or only add", name, contract)
			if column.MatchString(statement) {
				require.Regexp(t, `(?i)\bDEFAULT\b`, statement,
					"%s: a column needs a default, because the previous version does not set it", name)
			}
		}
	}
}
