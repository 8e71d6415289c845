package ending_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// TestFaultsNameTheKeyOfTheirLimit checks that the text of a fault has the agent.yaml key of the
// exceeded limit, and that LimitKey returns every key of a module's limits.
func TestFaultsNameTheKeyOfTheirLimit(t *testing.T) {
	t.Parallel()
	f := &ending.FaultError{
		Entry: "m",
		Hook:  "before_tool",
		Limit: "memory_bytes",
		Value: 64 << 20,
		Cause: errors.New("more than 64 MiB of memory"),
	}
	require.EqualError(t, f, "m: before_tool: more than 64 MiB of memory (limits.memory of its entry in agent.yaml)")
	require.EqualError(t, &ending.FaultError{Limit: "record_bytes", Cause: errors.New("too much")}, "too much")
	require.EqualError(t, &ending.FaultError{Cause: errors.New("panic")}, "panic")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[agentfile.ModuleLimits]()) {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		limit := key
		switch key {
		case "timeout":
			limit = "hook_time"
		case "memory":
			limit = "memory_bytes"
		}
		require.Equal(t, key, ending.LimitKey(limit))
	}
}
