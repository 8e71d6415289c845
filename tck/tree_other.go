//go:build !unix

package tck

import "os/exec"

func startTree(*exec.Cmd) {}

// killTree kills a process, but not its descendants.
func killTree(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
