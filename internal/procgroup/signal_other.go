//go:build !unix

package procgroup

import "os/exec"

// These systems have no process groups: only the command itself is killed.
func ownGroup(*exec.Cmd) {}
func terminateGroup(int) {}
func killGroup(int)      {}
