package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// write returns a file with a text.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "serve.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestReadConfig checks that a file sets flags, and that flags on the command line take precedence.
func TestReadConfig(t *testing.T) {
	cmd := NewServe(&cli.Env{})
	require.NoError(t, cmd.ParseFlags([]string{"--drain", "5s"}))
	require.NoError(t, readConfig(cmd, write(t, `
listen: 0.0.0.0:8080
drain: 1m
lease: 20s
max-upload: 1048576
keep-originals: true
allow-private: [10.1.0.0/16, 10.2.0.0/16]
connect-ports: [443, 8443]
join: 10.0.0.6:6222
`)))
	flags := cmd.Flags()
	for name, want := range map[string]string{
		"listen": "0.0.0.0:8080", "drain": "5s", "lease": "20s", "max-upload": "1048576", "keep-originals": "true",
		"allow-private": "[10.1.0.0/16,10.2.0.0/16]", "connect-ports": "[443,8443]", "join": "[10.0.0.6:6222]",
	} {
		require.Equal(t, want, flags.Lookup(name).Value.String(), name)
	}
	require.NoError(t, readConfig(NewServe(&cli.Env{}), write(t, "# nothing\n")))
}

func TestReadConfigRejects(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown", "lissten: x", `unknown key "lissten"; did you mean "listen"?`},
		{"itself", "config: x", `unknown key "config"`},
		{"list", "listen: [a, b]", "listen: want one value, not a list"},
		{"object", "listen: {a: b}", "listen: want a text"},
		{"empty", "listen:", "listen: want a text"},
		{"value", "drain: soon", "drain: "},
		{"twice", "listen: a\nlisten: b", "already defined"},
		{"no map", "- listen", "--config: "},
		{"large", "listen: " + strings.Repeat("x", maxConfig), "--config: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, readConfig(NewServe(&cli.Env{}), write(t, c.text)), c.want)
		})
	}
	require.ErrorContains(t, readConfig(NewServe(&cli.Env{}), "missing.yaml"), "--config: ")
}
