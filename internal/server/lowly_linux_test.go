package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Work of low priority has it, others keep theirs, and what goes wrong is its caller's.
func TestLowly(t *testing.T) {
	t.Parallel()
	// The kernel tells priorities as 20 less the nice value.
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	var during int
	lowly(func() { during, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) })
	require.NoError(t, err)
	require.Equal(t, min(before, 20-lowPriority), during)
	after, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.PanicsWithValue(t, "broken", func() { lowly(func() { panic("broken") }) })
}
