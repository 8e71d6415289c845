package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// TestModulePlaces checks the text of an agent file after its paths were replaced with digests, and
// that the text parses to the same entries as before.
func TestModulePlaces(t *testing.T) {
	t.Parallel()
	const d = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, c := range map[string]struct{ text, want string }{
		"block":       {"- module: a/guard.ts # mine\n  config: {}\n", "- module: " + d + " # mine\n  name: guard\n  config: {}\n"},
		"named":       {"- name: x\n  module: a/guard.ts\n", "- name: x\n  module: " + d + "\n"},
		"name behind": {"- module: a/guard.ts\n  name: x\n", "- module: " + d + "\n  name: x\n"},
		"in quotes":   {"- module: 'a/guard.ts'\n- module: \"b/other.ts\"", "- module: " + d + "\n  name: guard\n- module: " + d + "\n  name: other"},
		"braces": {
			"- {module: a/guard.ts, config: {a: 1}}\n", "- {module: " + d + ", name: guard, config: {a: 1}}\n",
		},
		"braces, quotes": {"- {\"module\": \"a/guard.ts\"}\n", "- {\"module\": " + d + ", name: guard}\n"},
		"braces, named":  {"- {name: a/guard.ts, module: a/guard.ts}\n", "- {name: a/guard.ts, module: " + d + "}\n"},
		"two on a line": {
			"[{module: a/x.ts}, {module: a/y.ts}]\n", "[{module: " + d + ", name: x}, {module: " + d + ", name: y}]\n",
		},
		"other alphabets": {
			"- {config: \"Ä\u4e16\", module: a/ü.ts}\n", "- {config: \"Ä\u4e16\", module: " + d + ", name: \"ü\"}\n",
		},
		"more room": {
			"-   module:   a/guard.ts\n    config: 1\n", "-   module:   " + d + "\n    name: guard\n    config: 1\n",
		},
		"lines of DOS": {"- module: a/guard.ts\r\n", "- module: " + d + "\r\n  name: guard\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, inside := range []bool{false, true} {
				before, want := "model: {name: m}\nmiddlewares:\n"+c.text, "model: {name: m}\nmiddlewares:\n"+c.want
				if inside {
					before, want = agentsInside(c.text), agentsInside(c.want)
				}
				places, err := modulePlaces([]byte(before))
				require.NoError(t, err)
				require.NotEmpty(t, places)
				lines := strings.Split(before, "\n")
				for i := len(places) - 1; i >= 0; i-- {
					places[i].digest = d
					lines, err = places[i].rewrite(lines)
					require.NoError(t, err)
				}
				got := strings.Join(lines, "\n")
				require.Equal(t, want, got)
				from, err := agentfile.Parse("a.yaml", []byte(before))
				require.NoError(t, err)
				to, err := agentfile.Parse("b.yaml", []byte(got))
				require.NoError(t, err, got)
				requireSameEntries(t, from, to, d)
			}
		})
	}
}

// agentsInside returns an agent file with the entries of list in its outer ring and in the
// middlewares of a nested agent.
func agentsInside(list string) string {
	deeper := func(by string) string {
		var b strings.Builder
		for line := range strings.Lines(list) {
			b.WriteString(by + line)
		}
		return strings.TrimSuffix(b.String(), "\n") + "\n"
	}
	return "model: {name: m}\nrings:\n  outer:\n" + deeper(
		"  ",
	) + "agents:\n- name: inside\n  description: It helps.\n  agent:\n    middlewares:\n" + deeper("    ")
}

func requireSameEntries(t *testing.T, from, to *agentfile.File, digest string) {
	t.Helper()
	a, b := hosting.Entries(from), hosting.Entries(to)
	require.Len(t, b, len(a))
	for i := range a {
		require.Equal(t, a[i].Name, b[i].Name)
		require.Equal(t, string(a[i].Config), string(b[i].Config))
		require.Equal(t, digest, string(b[i].Module))
	}
	require.Len(t, to.Agents, len(from.Agents))
	for i := range from.Agents {
		requireSameEntries(t, from.Agents[i].Spec(), to.Agents[i].Spec(), digest)
	}
}

func TestModulePlacesThatAreNotOnTheirLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"middlewares:\n- module:\n    a/guard.ts\n", "middlewares:\n- module: \"a\\u002fguard.ts\"\n"} {
		places, err := modulePlaces([]byte(text))
		require.NoError(t, err)
		require.Len(t, places, 1)
		_, err = places[0].rewrite(strings.Split(text, "\n"))
		require.EqualError(t, err, "module: write the path a/guard.ts after the key, on the same line, without escapes")
	}
}
