package javascript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMembers checks which folders the patterns of a workspace match.
func TestMembers(t *testing.T) {
	t.Parallel()
	dir := project(t, `
-- packages/a/package.json --
{}
-- packages/b/package.json --
{}
-- packages/b/inner/package.json --
{}
-- packages/none/index.ts --
-- packages/b/node_modules/x/package.json --
{}
-- tools/package.json --
{}
`)
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "packages", "up")))
	for workspaces, want := range map[string]string{
		`["packages/*"]`:                    "packages/a packages/b",
		`["packages/**"]`:                   "packages/a packages/b packages/b/inner",
		`["**/inner", "./tools/"]`:          "packages/b/inner tools",
		`["packages/*", "!packages/b"]`:     "packages/a",
		`["**"]`:                            "packages/a packages/b packages/b/inner tools",
		`[".", "..", "../*", "/", "p*/u?"]`: "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"workspaces": `+workspaces+`}`), 0o600))
		var got []string
		for _, m := range members(dir) {
			rel, err := filepath.Rel(dir, m)
			require.NoError(t, err)
			got = append(got, filepath.ToSlash(rel))
		}
		require.Equal(t, want, strings.Join(got, " "), workspaces)
	}
}

// TestMembersAreBounded checks that the number of entries that are read is limited for many
// patterns over many folders and links.
func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, link := range []string{"a", "b"} {
		require.NoError(t, os.Symlink(".", filepath.Join(dir, link)))
	}
	deep := dir
	for range 200 {
		deep = filepath.Join(deep, "x")
		require.NoError(t, os.Mkdir(deep, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(deep, "package.json"), []byte("{}"), 0o600))
	}
	pattern := `"` + strings.Repeat("**/", maxComponents-1) + `x"`
	manifest := `{"workspaces": [` + strings.Repeat(pattern+",", 10*maxPatterns) + pattern + `]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(manifest), 0o600))
	require.LessOrEqual(t, len(members(dir)), maxMembers)
}

// TestSharedFolderIsNoWorkspace checks that a package.json in a folder such as /tmp is not used.
func TestSharedFolderIsNoWorkspace(t *testing.T) {
	t.Parallel()
	dir := project(t, `
-- package.json --
{"workspaces": ["mine"]}
-- mine/package.json --
{}
`)
	require.NotNil(t, findWorkspace(filepath.Join(dir, "mine")))
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	require.Nil(t, findWorkspace(filepath.Join(dir, "mine")))
}
