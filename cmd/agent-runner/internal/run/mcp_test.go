package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func TestParseCommand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`npx -y server`:              {"npx", "-y", "server"},
		"  a\tb\nc  ":                {"a", "b", "c"},
		`a 'b c' "d e" f\ g`:         {"a", "b c", "d e", "f g"},
		`a "it's" 'say "x"' ""`:      {"a", "it's", `say "x"`, ""},
		`"/opt/My Server/bin" --x=1`: {"/opt/My Server/bin", "--x=1"},
		`a $HOME *.go | b > c && d;`: {"a", "$HOME", "*.go", "|", "b", ">", "c", "&&", "d;"},
	} {
		got, err := parseCommand(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		``:       "empty",
		"  \t":   "empty",
		`""`:     "empty",
		`# only`: "empty",
		`a "b`:   "not closed",
		`a 'b`:   "not closed",
		`a \`:    "not closed",
	} {
		_, err := parseCommand(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestParseMCP(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]agentfile.MCPServer{
		" https://example.com/mcp?key=1 ": {URL: "https://example.com/mcp?key=1"},
		"HTTP://localhost:3000":           {URL: "HTTP://localhost:3000"},
		"server --url http://x/":          {Command: agentfile.Command{"server", "--url", "http://x/"}},
	} {
		got, err := parseMCP(in)
		require.NoError(t, err, in)
		require.Equal(t, &want, got)
	}
	for _, in := range []string{
		"http://", "https:// x", "http://a b", "http://[::1", "http://x:port/", "http://user:SECRET@:80 /?key=SECRET",
	} {
		_, err := parseMCP(in)
		require.ErrorContains(t, err, "http://host/path", in)
		require.NotContains(t, err.Error(), "SECRET")
	}
}
