package clusterchaos

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// TestRegister checks which histories of a run the check accepts.
func TestRegister(t *testing.T) {
	t.Parallel()
	appended := func(seq, from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: int(seq), Input: seq, Call: from, Output: int64(0), Return: to}
	}
	read := func(n, from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: 100 + int(from), Input: int64(0), Call: from, Output: n, Return: to}
	}
	for name, tc := range map[string]struct {
		operations []porcupine.Operation
		ok         bool
	}{
		"reads in between":           {[]porcupine.Operation{appended(1, 0, 10), read(1, 12, 14), appended(2, 0, 20), read(2, 22, 24)}, true},
		"ahead of the follower":      {[]porcupine.Operation{appended(1, 0, 10), appended(2, 0, 20), read(2, 12, 14)}, true},
		"behind the follower":        {[]porcupine.Operation{appended(1, 0, 10), appended(2, 0, 20), read(1, 22, 24)}, false},
		"behind another node's read": {[]porcupine.Operation{appended(1, 0, 40), appended(2, 0, 40), read(2, 10, 12), read(1, 14, 16)}, false},
		"an event that never was":    {[]porcupine.Operation{appended(1, 0, 10), read(2, 12, 14)}, false},
		"a gap":                      {[]porcupine.Operation{appended(1, 0, 10), appended(3, 0, 20)}, false},
	} {
		r := newRegisters()
		r.of["run"] = tc.operations
		_, err := r.check()
		require.Equal(t, tc.ok, err == nil, "%s: %v", name, err)
	}
}
