package compile

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestPreparedVersions checks that the output of prepare, which includes metering, changes only
// together with a version, because users have machine code of the old output in their caches.
func TestPreparedVersions(t *testing.T) {
	t.Parallel()
	require.Equal(t, "prepare 6, meter 8", fmt.Sprintf("prepare %d, meter %d", prepareVersion, wasm.MeterVersion),
		"write the new versions and digests here")
	for name, want := range map[string]string{ // digests of the module and of the output
		"building": "0abfac6ee1042c16 d904624bdf3993e9",
		"moody":    "9cdb18b8318a8b0c cd34cfc10b4da2c1",
		"puppet":   "c4172629a6cb7da1 aa2378965c3c1624",
		"stream":   "be8adf68dfd1e695 8c5ab5bc8c2c52a9",
		"wasi":     "b9ea361e86902ea0 52900aa2861556be",
	} {
		b, err := os.ReadFile(filepath.FromSlash("../../../testdata/modules/" + name + ".wasm"))
		require.NoError(t, err)
		facts, metered, err := newCompiler(t, Options{Surface: importsOf(t, b)}).prepare(b)
		require.NoError(t, err)
		output := append(facts.encode(), metered.Encode()...)
		require.Equal(t, want, fmt.Sprintf("%x %x", short(b), short(output)),
			"%s: if the second digest changes and the first does not, raise prepareVersion or wasm.MeterVersion", name)
	}
}

func short(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:8]
}

// importsOf returns a surface with the imports of a module.
func importsOf(t *testing.T, b []byte) *verify.Surface {
	t.Helper()
	m, err := wasm.Decode(b, wasm.DefaultLimits())
	require.NoError(t, err)
	outline, err := verify.OutlineOf(m)
	require.NoError(t, err)
	s := verify.NewSurface("any", nil)
	for _, i := range outline.Imports {
		s.Add(i)
	}
	return s
}
