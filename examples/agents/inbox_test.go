package agents

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInbox checks that the inbox agent sends the mail that the user wants, and that a mail of a
// stranger, which its model obeys, sends and deletes nothing.
func TestInbox(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the modules of an agent")
	}
	t.Parallel()
	deny := json.RawMessage(`{"decision":"deny","message":"I did not ask for this."}`)
	inbox := example{
		name:    "inbox",
		servers: map[string]string{"mail": "inbox/mail"},
		answers: map[string]json.RawMessage{"call_3": deny, "call_4": json.RawMessage(`false`)},
	}
	out := inbox.test(t)
	out.require(
		t,
		"tool answers call_1",
		"asked about call_3",
		"asked about call_4",
		"provenance answers call_3",
		"provenance answers call_4",
		"tool answers call_5",
	)
	require.Equal(t, "Sent to sarah@example.com: 25 bytes.", out.result(t, "call_5"))
}
