package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRunLowPriority checks that only fn runs at the low priority, and that its panics are the
// caller's.
func TestRunLowPriority(t *testing.T) {
	t.Parallel()
	// The kernel reports 20 minus the nice value.
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	var during int
	RunLowPriority(func() { during, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) })
	require.NoError(t, err)
	require.Equal(t, min(before, 20-lowPriority), during)
	after, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.PanicsWithValue(t, "failed", func() { RunLowPriority(func() { panic("failed") }) })
}
