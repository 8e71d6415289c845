package values_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	guestjson "github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

func TestRead(t *testing.T) {
	t.Parallel()
	value, err := values.Read(
		[]byte(` {"a": [1, -2.50e1, 12345678901234567890, true, false, null, {}, []], "\u0062": "\"\ud83d\ude00"} `),
	)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": []any{
			values.Number("1"),
			values.Number("-2.50e1"),
			values.Number("12345678901234567890"),
			true,
			false,
			nil,
			map[string]any{},
			[]any{},
		},
		"b": `"😀`,
	}, value)
	again, err := guestjson.Marshal(value)
	require.NoError(t, err)
	require.Equal(t, `{"a":[1,-2.50e1,12345678901234567890,true,false,null,{},[]],"b":"\"😀"}`, string(again))

	for _, text := range []string{"", "{", `{"a":1,"a":2}`, `{} {}`, "'a'", "01"} {
		_, err := values.Read([]byte(text))
		require.Error(t, err, text)
	}
}

// FuzzRead checks that Read returns the same value as encoding/json if it accepts the text.
func FuzzRead(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.0,"x",null,true]}`, `[[[]]]`, `"\u00e9"`, `-0`, `{"":{}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := values.Read(text)
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		require.NoError(t, d.Decode(&want))
		expected, err := json.Marshal(want)
		require.NoError(t, err)
		got, err := json.Marshal(value)
		require.NoError(t, err)
		require.Equal(t, string(expected), string(got))
	})
}
