package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ok("PUT", "/v1/secrets/OPENAI_API_KEY", f.acme, map[string]any{"value": "sk-1"}, nil)
	r := f.ok("GET", "/v1/secrets", f.acme, nil, nil)
	require.Contains(t, string(r.body), "OPENAI_API_KEY")
	require.NotContains(t, string(r.body), "sk-1")
	require.NotContains(t, string(f.ok("GET", "/v1/secrets", f.beta, nil, nil).body), "OPENAI")
	f.ok("DELETE", "/v1/secrets/OPENAI_API_KEY", f.acme, nil, nil)
}
