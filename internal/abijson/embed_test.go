package abijson_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// TestMarshalEmbedded checks that a type that embeds a type of package abi does not inherit its
// codec.
func TestMarshalEmbedded(t *testing.T) {
	t.Parallel()
	type mine struct {
		abi.Tool
		Extra string `json:"extra"`
	}
	var v mine
	_, err := abijson.Decode([]byte(`{"name":"a","extra":"b"}`), &v)
	require.NoError(t, err)
	require.Equal(t, mine{abi.Tool{Name: "a"}, "b"}, v)
	b, err := abijson.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"a","extra":"b"}`, string(b))
}
