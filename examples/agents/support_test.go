package agents

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSupport checks that the support agent serves a legitimate request, and that an attempt to
// misuse it reveals no secrets.
func TestSupport(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the modules of an agent")
	}
	t.Parallel()
	support := example{
		name:    "support",
		servers: map[string]string{"desk": "support/desk"},
		answers: map[string]json.RawMessage{
			"call_7": json.RawMessage(`{"decision":"deny","message":"This order is not yours to give back."}`),
		},
	}
	out := support.test(t)
	out.require(
		t,
		"guard-tools guarded",
		"guard-tools answers call_3",
		"redact-inside redacted",
		"redact-outside redacted",
		"approve reviewed",
		"validate-args answers call_4",
		"tool answers call_5",
		"tool-policy answers call_6",
		"asked about call_7",
		"approve answers call_7",
		"tool answers call_8",
		"limits limit_reached",
		"limits answers call_9",
		"call-log log",
	)
	require.Equal(t, 5, out.did()["approve reviewed"])
	require.Contains(t, out.answer(t), "a mail about it goes to [REDACTED_EMAIL]")

	all, err := json.Marshal(out.events)
	require.NoError(t, err)
	recorded := string(support.read(t, "conversation.json"))
	// the recording has this address only because the model invents it
	require.NotContains(t, string(all), "bob@example.com")
	for _, secret := range []string{"4111 1111", "5500 0000", "maintenance mode", "eve@evil.example"} {
		require.NotContains(t, string(all), secret)
		require.NotContains(t, recorded, secret)
	}
}
