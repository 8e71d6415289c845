package message

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestLabelsOfRoles checks the labels that follow from a message's role. Only the role user results
// in the label "user".
func TestLabelsOfRoles(t *testing.T) {
	for role, want := range map[string]string{
		abi.RoleUser: "user", abi.RoleSystem: "system", abi.RoleDeveloper: "system", abi.RoleAssistant: "model",
		abi.RoleTool: "tool:", "function": "*", "boss": "*", "": "*",
	} {
		require.Equal(t, []string{want}, Labels(&abi.Message{Role: role}), role)
	}
}
