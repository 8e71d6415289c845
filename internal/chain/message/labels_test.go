package message

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestLabelsOfRoles checks that only the role user makes a message without labels the user's.
func TestLabelsOfRoles(t *testing.T) {
	for role, want := range map[string]string{
		abi.RoleUser: "user", abi.RoleSystem: "system", abi.RoleDeveloper: "system", abi.RoleAssistant: "model",
		abi.RoleTool: "tool:", "function": "*", "boss": "*", "": "*",
	} {
		require.Equal(t, []string{want}, Labels(&abi.Message{Role: role}), role)
	}
}
