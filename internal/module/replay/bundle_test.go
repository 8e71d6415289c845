package replay

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestReadOldKey checks that Read reads the faulted call of a bundle under the key "call" and under
// the key "visit", which earlier versions wrote.
func TestReadOldKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"call", "visit"} {
		path := filepath.Join(t.TempDir(), "x"+suffix)
		f, err := os.Create(path)
		require.NoError(t, err)
		z := zip.NewWriter(f)
		w, err := z.Create("bundle.json")
		require.NoError(t, err)
		_, err = fmt.Fprintf(w, `{"version":1,"digest":"%x",%q:{"hook":"before_agent"}}`, sha256.Sum256(nil), key)
		require.NoError(t, err)
		_, err = z.Create("module.wasm")
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, f.Close())
		b, err := Read(path)
		require.NoError(t, err)
		require.Equal(t, abi.Hook("before_agent"), b.Call.Hook)
	}
}
