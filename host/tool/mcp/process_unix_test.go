//go:build unix

package mcp

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// TestGrandchildrenEnd checks that Close kills the descendants of a server and leaves no zombie.
func TestGrandchildrenEnd(t *testing.T) {
	t.Parallel()
	o := fake(t, "grandchild")
	s, err := Connect(t.Context(), o)
	require.NoError(t, err)
	grandchild, err := strconv.Atoi(left(t, o, "grandchild"))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(grandchild, 0), "it lives")
	require.NoError(t, s.Close())
	require.Eventually(t, func() bool { return !alive(grandchild) }, 10*time.Second, 5*time.Millisecond)
	require.ErrorIs(
		t,
		syscall.Kill(s.conn.p.child.(*procgroup.Group).PID(), 0),
		syscall.ESRCH,
		"the server was waited for",
	)
}

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}
