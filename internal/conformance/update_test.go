package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireKnown fails for a case that git does not track: the expectations of a new case are written
// by hand, from the rule, before the code runs.
func requireKnown(t *testing.T, c *Case) {
	t.Helper()
	err := exec.Command("git", "-C", filepath.Dir(c.path), "ls-files", "--error-unmatch", filepath.Base(c.path)).Run()
	require.NoError(t, err, "%s is new: write what you expect by hand; -update is for cases that were committed", c.Name)
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	const text = "About.\n-- told 1 --\n-- events --\nold\n"
	path := filepath.Join(t.TempDir(), "own-x.txtar")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := LoadFile(path)
	require.NoError(t, err)

	require.NoError(t, c.Update([]string{"", "old"}))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(got))

	require.NoError(t, c.Update([]string{"", "new"}))
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "About.\n-- told 1 --\n-- events --\nnew\n", string(got))

	require.ErrorContains(t, c.Update([]string{"t", "new"}), "told is empty: write what you expect first")
}
