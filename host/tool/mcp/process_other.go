//go:build !unix

package mcp

import "os/exec"

// There are no process groups here: the command itself is killed.
func ownGroup(*exec.Cmd) {}
func terminateGroup(int) {}
func killGroup(int)      {}
