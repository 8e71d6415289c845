//go:build unix

package tck

import (
	"os/exec"
	"syscall"
)

// startTree has a process start in a group of its own, so that killTree reaches its descendants: "go
// run" is no host itself.
func startTree(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killTree kills a process and its descendants.
func killTree(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
