package server_test

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestPlatformIsDocumented checks that docs/platform.md names every scope, quota, policy field and
// metric, and only tests that exist.
func TestPlatformIsDocumented(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	text, err := os.ReadFile("../../docs/platform.md")
	require.NoError(t, err)
	names := httpapi.OperatorScopes()
	for _, of := range []reflect.Type{reflect.TypeFor[store.TenantQuota](), reflect.TypeFor[policy.Policy]()} {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	metrics := f.OK("GET", "/metrics", f.Operator, nil, nil).Body
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (agent_runner_\w+)`).FindAllSubmatch(metrics, -1) {
		names = append(names, string(m[1]))
	}
	for _, name := range names {
		require.Contains(t, string(text), "`"+name+"`")
	}
	list := exec.CommandContext(
		t.Context(),
		"grep",
		"-rhoE",
		"--include=*_test.go",
		`^func (Test|Fuzz)\w+`,
		"..",
		"../../internal",
	)
	there, err := list.Output()
	require.NoError(t, err)
	for _, name := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1) {
		require.True(t, bytes.Contains(there, append([]byte("func "), append(name[1], '\n')...)), "%s", name[1])
	}
}
