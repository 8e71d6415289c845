package callkey

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	t.Parallel()
	want, err := Of("t", `{"a":1,"b":{"c":"x","d":[1,2]}}`)
	require.NoError(t, err)
	for _, same := range []string{`{"b":{"d":[1,2],"c":"\u0078"},"a":1}`, ` { "a" : 1 , "b" : { "c" : "x" , "d" : [ 1 , 2 ] } } `} {
		got, err := Of("t", same)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, other := range []string{
		`{"a":2,"b":{"c":"x","d":[1,2]}}`, `{"a":1,"b":{"c":"x","d":[2,1]}}`, `{"a":"1","b":{"c":"x","d":[1,2]}}`, `{}`,
		`{"a":9007199254740993}`,
	} {
		got, err := Of("t", other)
		require.NoError(t, err)
		require.NotEqual(t, want, got)
	}
	other, err := Of("u", `{"a":1,"b":{"c":"x","d":[1,2]}}`)
	require.NoError(t, err)
	require.NotEqual(t, want, other)

	none, err := Of("t", "")
	require.NoError(t, err)
	empty, err := Of("t", "{}")
	require.NoError(t, err)
	require.Equal(t, empty, none)

	for _, wrong := range []string{`[1]`, `{`, `{"a":1,"a":2}`, `"x"`} {
		_, err := Of("t", wrong)
		require.Error(t, err, wrong)
	}
}
