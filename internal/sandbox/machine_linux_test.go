package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachineMemory(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, machineMemory(), int64(64<<20))
	require.EqualValues(t, machineMemory()/2, newSandbox(t, Options{}).admission.total)
	for text, want := range map[string]int64{"4096\n": 4096, "max\n": unlimited, "": unlimited, "-1": unlimited} {
		require.Equal(t, want, memoryLimit(text), text)
	}
}
