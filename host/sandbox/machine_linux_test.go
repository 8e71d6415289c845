package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestMachineMemory(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, machineMemory(), int64(64<<20))
	require.EqualValues(t, machineMemory()/2, newSandbox(t, Options{}).admission.all)
	for text, want := range map[string]int64{"4096\n": 4096, "max\n": unlimited, "": unlimited, "-1": unlimited} {
		require.Equal(t, want, memoryLimit(text), text)
	}
}

// However little memory instances need, all that may run together find mappings.
func TestInstancesHaveMappings(t *testing.T) {
	t.Parallel()
	const all = 1 << 40
	s := newSandbox(t, Options{MemoryBytes: all})
	im := load(t, s, guestWasm, Limits{MemoryBytes: 1 << 20, StackBytes: 64 << 10})
	require.LessOrEqual(t, all/im.WorstCase(), maxInstances()/2)
	require.LessOrEqual(t, s.idleBudget.most/s.idleBudget.least, maxInstances()/4+1)

	// One with as many gaps as there may be, that has grown, and may grow more.
	b := make([]byte, 4<<20)
	for _, at := range []int{0, 1 << 20, 2 << 20, 3 << 20} {
		b[at] = 1
	}
	image, err := mapImage(b)
	require.NoError(t, err)
	defer image.close()
	p, err := image.open(5<<20, 8<<20)
	require.NoError(t, err)
	defer p.free()
	require.NotNil(t, p.resize(6<<20))
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	space := p.(*mappedPages).space
	begin, n := uintptr(unsafe.Pointer(&space[0])), 0
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
		require.NoError(t, err)
		if from < begin+uintptr(len(space)) && begin < to {
			n++
		}
	}
	require.Equal(t, mappingsOfInstance, n)
}
