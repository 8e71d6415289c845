package agentfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntryName(t *testing.T) {
	t.Parallel()
	for module, want := range map[string]string{
		"build/wasm/redact.wasm": "redact", "guard.ts": "guard", "redact": "redact", "redact@1.2.0": "redact", "@x.ts": "@x",
	} {
		require.Equal(t, want, EntryName(module), module)
	}
}
