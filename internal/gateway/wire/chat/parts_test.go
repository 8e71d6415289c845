package chat

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

func TestCarry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"text stays", `[{"role":"tool","tool_call_id":"1","content":"a"}]`, `[{"role":"tool","tool_call_id":"1","content":"a"}]`},
		{"text parts stay as such", `[{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			`[{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"unknown parts stay", `[{"role":"tool","tool_call_id":"1","content":[{"type":"video","url":"x"}]}]`,
			`[{"role":"tool","tool_call_id":"1","content":[{"type":"video","url":"x"}]}]`},
		{"what a user sent stays", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`,
			`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`},
		{"behind all answers of the round", `[{"role":"assistant","content":null},
			{"role":"tool","tool_call_id":"1","name":"shot","content":[{"type":"text","text":"here"},{"type":"image_url","image_url":{"url":"u"}}]},
			{"role":"tool","tool_call_id":"2","content":"b"},
			{"role":"assistant","content":"c"}]`, `[{"role":"assistant","content":null},
			{"role":"tool","tool_call_id":"1","name":"shot","content":[{"type":"text","text":"here"},{"type":"text","text":"[image: in the message after the tool results]"}]},
			{"role":"tool","tool_call_id":"2","content":"b"},
			{"role":"user","content":[{"type":"text","text":"[image from the result of tool call 1 of shot]"},{"type":"image_url","image_url":{"url":"u"}}]},
			{"role":"assistant","content":"c"}]`},
		{"of several calls, at the end", `[
			{"role":"tool","tool_call_id":"1","content":[{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{"file_id":"f"}}]},
			{"role":"tool","tool_call_id":"2","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`, `[
			{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"[audio, file: in the message after the tool results]"}]},
			{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"[image: in the message after the tool results]"}]},
			{"role":"user","content":[{"type":"text","text":"[audio, file from the result of tool call 1]"},
				{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{"file_id":"f"}},
				{"type":"text","text":"[image from the result of tool call 2]"},{"type":"image_url","image_url":{"url":"u"}}]}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var in []abi.Message
			require.NoError(t, json.Unmarshal([]byte(test.in), &in))
			before, err := json.Marshal(in)
			require.NoError(t, err)
			out, err := json.Marshal(moveParts(in))
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(out))
			after, err := json.Marshal(in)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after), "the run's messages are not touched")
		})
	}
}
