//go:build !unix

package procgroup

import "os/exec"

// ownGroup, terminateGroup and killGroup do nothing, because these systems have no process groups.
// [Group.Kill] kills only the command itself.
func ownGroup(*exec.Cmd) {}
func terminateGroup(int) {}
func killGroup(int)      {}
