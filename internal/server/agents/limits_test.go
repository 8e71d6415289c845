package agents

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// TestTenantsCannotRaiseLimits checks that tenants cannot raise any limit of a module, including
// limits that are added later.
func TestTenantsCannotRaiseLimits(t *testing.T) {
	t.Parallel()
	f, err := agentfile.Parse("a", []byte("model: {name: x}\nmiddlewares: [{module: wrap}]\n"))
	require.NoError(t, err)
	kind := reflect.TypeFor[agentfile.ModuleLimits]()
	for i := range kind.NumField() {
		var l agentfile.ModuleLimits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(1)
		require.NoError(t, checkLimits(f, "middlewares[0]", &l))
		reflect.ValueOf(&l).Elem().Field(i).SetInt(1 << 42)
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		require.ErrorContains(t, checkLimits(f, "middlewares[0]", &l), "limits."+name)
	}
}
