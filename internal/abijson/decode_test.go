package abijson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"empty":              {"", "empty"},
		"trailing":           {`{} {}`, "unexpected text after"},
		"truncated":          {`{"instruction":"a`, "ends in the middle of a string"},
		"invalid utf-8":      {"{\"instruction\":\"\xff\"}", "not valid UTF-8"},
		"half a surrogate":   {`{"instruction":"\ud800"}`, "half of a surrogate pair"},
		"duplicate":          {`{"instruction":"a","instruction":"b"}`, "is duplicated"},
		"duplicate, escaped": {`{"instruction":"a","instructio\u006e":"b"}`, "is duplicated"},
		"case":               {`{"Instruction":"a"}`, `"Instruction" differs from "instruction" in case only`},
		"kelvin sign":        {`{"respond":{"toolcalls":1,"tool_call\u017f":[]}}`, "in case only"},
		"wrong type":         {`{"instruction":7}`, "instruction: want a string, got a number"},
		"wrong inner type":   {`{"messages":{"splice":[{"at":"1"}]}}`, "messages.splice[0].at: want a number, got a string"},
		"wrong array":        {`[]`, "want an object, got an array"},
		"no key":             {`{"respond":{7}}`, "respond: want a key in an object (at byte 12)"},
		"deep":               {`{"x":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`, "nested deeper than 64 levels"},
		"long number":        {`{"x":` + strings.Repeat("1", 65) + `}`, "a number of 65 bytes"},
		"plus":               {`{"x":+1}`, "want a JSON value"},
		"leading zero":       {`{"x":01}`, "want , or }"},
		"control character":  {"{\"x\":\"\n\"}", "control character"},
		"NaN":                {`{"x":NaN}`, "want a JSON value"},
		"bad escape":         {`{"x":"\x41"}`, "unknown escape"},
		"fraction for int":   {`{"messages":{"splice":[{"at":1.5}]}}`, "number 1.5 does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := abi.BeforeAgentAnswer{ReturnDirectly: []string{"kept"}}
			_, err := Decode([]byte(tc.in), &answer)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, abi.BeforeAgentAnswer{ReturnDirectly: []string{"kept"}}, answer,
				"nothing is applied of what is refused")
		})
	}
}

func TestDecodeUnknownKeys(t *testing.T) {
	t.Parallel()
	var answer abi.BeforeAgentAnswer
	unknown, err := Decode(
		[]byte(
			`{"instructions":"x","respond":{"role":"assistant","content":"hi","refusal":null,"score":1.50},"tools":{"ad":[]}}`,
		),
		&answer,
	)
	require.NoError(t, err)
	require.Equal(t, []string{"instructions", "tools.ad"}, unknown,
		"a message's unknown fields pass through, an answer's are told")
	require.Contains(t, answer.Respond.Unknown, abi.Field{Name: "score", Value: abi.JSON("1.50")})
}

func TestDecodeAbsentAndEmpty(t *testing.T) {
	t.Parallel()
	var absent, empty, null abi.BeforeAgentAnswer
	_, err := Decode([]byte(`{}`), &absent)
	require.NoError(t, err)
	_, err = Decode([]byte(`{"tools":[],"return_directly":[],"messages":[]}`), &empty)
	require.NoError(t, err)
	_, err = Decode([]byte(`{"tools":null,"return_directly":null,"messages":null}`), &null)
	require.NoError(t, err)
	require.True(t, absent.Tools.IsZero() && absent.Messages.IsZero())
	require.Nil(t, absent.ReturnDirectly)
	require.True(t, empty.Tools.Whole && empty.Messages.Whole)
	require.NotNil(t, empty.ReturnDirectly)
	require.Equal(t, absent, null)
}

func TestMessageUnknownFields(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"role":"user","content":"a <b> & c"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"t","arguments":"{\"x\": 1}"},"extra_content":{"sig":"AAA"}}]}`,
		`{"role":"user","content":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:x","detail":"low"}},{"type":"video","video":{"fps":30.0}}]}`,
		`{"role":"assistant","content":"x","annotations":[],"big":12345678901234567890.10}`,
	} {
		var m abi.Message
		unknown, err := Decode([]byte(in), &m)
		require.NoError(t, err)
		require.Empty(t, unknown)
		out, err := Marshal(m)
		require.NoError(t, err)
		require.Equal(t, in, string(out))
	}
}

func TestListPatchCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in    string
		total int
		want  string
	}{
		"append":       {`{"splice":[{"at":3,"insert":[{"role":"user","content":"x"}]}]}`, 3, ""},
		"two":          {`{"splice":[{"at":0,"remove":1},{"at":1,"remove":1}]}`, 3, ""},
		"past the end": {`{"splice":[{"at":4}]}`, 3, "does not fit"},
		"too many":     {`{"splice":[{"at":2,"remove":2}]}`, 3, "does not fit"},
		"huge":         {`{"splice":[{"at":1,"remove":9223372036854775807}]}`, 3, "does not fit"},
		"negative":     {`{"splice":[{"at":-1}]}`, 3, "does not fit"},
		"descending":   {`{"splice":[{"at":2},{"at":1}]}`, 3, "does not fit"},
		"overlap":      {`{"splice":[{"at":0,"remove":2},{"at":1}]}`, 3, "does not fit"},
		"no role":      {`[{"content":"x"}]`, 3, "message 0: a message needs a role"},
		"bad role":     {`[{"role":"root","content":"x"}]`, 3, "unknown role"},
		"lone result":  {`[{"role":"tool","content":"x"}]`, 3, "needs a tool_call_id"},
		"calls of a user": {`[{"role":"user","content":"x","tool_calls":[{"id":"1","function":{"name":"t","arguments":""}}]}]`, 3,
			"only assistant messages do"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p abi.ListPatch
			_, err := Decode([]byte(tc.in), &p)
			require.NoError(t, err)
			err = contract.CheckListPatch(&p, tc.total)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

// FuzzDecode checks that encoding/json accepts everything that Decode accepts, and that encoding
// the decoded value and decoding it again loses nothing.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"messages":{"splice":[{"at":1,"insert":[{"role":"user","content":"x","y":1e5}]}]}}`, `{"tools":[{"name":"t"}]}`,
		`{"respond":{"role":"assistant","content":[{"type":"text","text":"\ud83d\ude00"}]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var answer abi.BeforeAgentAnswer
		if _, err := Decode(b, &answer); err != nil {
			return
		}
		require.True(t, json.Valid(b))
		out, err := Marshal(answer)
		require.NoError(t, err)
		var again abi.BeforeAgentAnswer
		_, err = Decode(out, &again)
		require.NoError(t, err, "%s", out)
		out2, err := Marshal(again)
		require.NoError(t, err)
		require.JSONEq(t, string(out), string(out2))
	})
}
