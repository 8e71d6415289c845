package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

func TestUnestimated(t *testing.T) {
	for body, want := range map[string]string{
		`{"background":true}`: "background", `{"background":"true"}`: "background", `{"background":false}`: "",
		`{"previous_response_id":"resp_1"}`: "previous_response_id", `{"previous_response_id":null}`: "",
		`{"conversation":"conv_1"}`: "conversation", `{"conversation":{"id":"conv_1"}}`: "conversation",
		`{"prompt":{"id":"pmpt_1"}}`: "prompt", `{"thread":{"id":"t"}}`: "thread",
		`{"input":"file_id"}`: "",
		`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`:                          "file_id",
		`{"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://a"}]}]}`:                 "file_url",
		`{"input":[{"role":"user","content":[{"file\u005fid":"f"}]}]}`:                                         "file_id",
		`{"input":[{"role":"user","content":[{"type":"input_file","file_data":"x"}]}]}`:                        "",
		`{"input":[{"type":"function_call_output","output":[{"type":"input_image","file_id":"f"}]}]}`:          "file_id",
		`{"input":[{"type":"function_call","arguments":"{\"file_id\":1}"}]}`:                                   "",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`:                    "file_id",
		`{"messages":[{"content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}`:                 "file_id",
		`{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"https://a"}}]}]}`:           "url",
		`{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://a"}}]}]}`:              "",
		`{"messages":[{"content":[{"type":"tool_result","content":[{"source":{"file_id":"f"}}]}]}]}`:           "file_id",
		`{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"f","content":{"file_id":1}}}]}]}`:     "",
		`{"messages":[{"content":{"content":[{"type":"bash_code_execution_output","file_id":"f"}]}}]}`:         "",
		`{"tools":[{"input_schema":{"properties":{"file_id":{"type":"string"}}}}],"messages":[{"content":5}]}`: "",
	} {
		v, err := rawjson.Parse([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, unestimated(v), body)
	}
}
