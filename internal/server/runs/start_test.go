package runs

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// FuzzStartRun checks that each accepted request body contains a valid conversation.
func FuzzStartRun(f *testing.F) {
	for _, s := range []string{`{"agent":"a","input":"hi"}`, `{"agent":"a","version":2,"messages":[{"role":"user","content":"hi"}],"metadata":{"a":1},"disconnect":"cancel"}`,
		`{"run":"run_1","answers":{"int_1":{"approve":true}}}`, `{"agent":"a","messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}]}`,
		`{"agent":"a","input":"a","input":"b"}`, "{\"agent\":\"\xff\"}", strings.Repeat(`{"a":`, 100), `null`, `[]`, `{"agent":"a","messages":[null]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var in api.StartRun
		if decodeStart([]byte(body), &in) != nil || in.Run != "" {
			return
		}
		require.True(t, utf8.ValidString(body))
		messages, err := conversation(&in)
		if err != nil {
			require.NotEmpty(t, httpapi.ProblemOf(err).Detail)
			return
		}
		require.NotEmpty(t, messages)
		for _, m := range messages {
			require.NoError(t, contract.CheckMessage(&m))
			require.Empty(t, m.Origin)
		}
		b, err := abijson.Marshal(messages)
		require.NoError(t, err)
		var again []abi.Message
		_, err = abijson.Decode(b, &again)
		require.NoError(t, err, "stored messages can be read")
	})
}
