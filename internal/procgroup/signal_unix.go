//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminateGroup and killGroup signal the command and its descendants. They ignore errors, because
// an error means that no process is left.
func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func killGroup(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }
