package modules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestUploadsReadNoFile checks that the response to a script that refers to a file of the host
// does not quote the file, and does not change when the file is deleted.
func TestUploadsReadNoFile(t *testing.T) {
	const canary = "canary-4711"
	f := servertest.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	up := strings.Repeat("../", 40)
	bodies := map[string]string{}
	for kind, line := range map[string]string{
		"map":     "//# sourceMappingURL=" + secret,
		"old map": "//@ sourceMappingURL=" + up + secret[1:],
		"URL":     "/*# sourceMappingURL=file://" + secret + " */",
		"escaped": "//# sourceMappingURL=" + strings.ReplaceAll(secret, "/", "%2F"),
		"import":  "import '" + secret + "';",
		"require": "require('" + up + secret[1:] + "');",
		"pattern": "import('./" + up + secret[1:] + "' + globalThis.x);",
	} {
		bodies[kind] = servertest.TypedModule + "\n" + line
	}
	answers := func() map[string]string {
		all := map[string]string{}
		for kind, body := range bodies {
			r := f.PushModule(f.Acme, "?name=shout", []byte(body), "application/typescript")
			require.NotContains(t, string(r.Body), canary, kind)
			var answer struct{ Digest, Detail string }
			require.NoError(t, json.Unmarshal(r.Body, &answer))
			all[kind] = fmt.Sprint(r.Status, answer)
		}
		return all
	}
	require.NoError(t, os.WriteFile(secret, []byte(canary+"=1\n"), 0o600))
	before := answers()
	require.NoError(t, os.Remove(secret))
	require.Equal(t, before, answers())
}
