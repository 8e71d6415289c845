// Package procgroup starts child processes as leaders of their own process groups, so that the
// descendants that stay in the group end with them.
package procgroup

import (
	"fmt"
	"os/exec"
)

// Start starts a command as the leader of its own process group. Its error wraps that of cmd.Start.
func Start(cmd *exec.Cmd) (*Group, error) {
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	return &Group{cmd}, nil
}

// A Group is a child process with its process group.
type Group struct{ cmd *exec.Cmd }

// PID returns the process id, which is also the id of the group.
func (g *Group) PID() int { return g.cmd.Process.Pid }

// Wait waits for the process to exit and kills the rest of its group. The error describes the
// exit status; it is nil for status 0.
func (g *Group) Wait() error {
	err := g.cmd.Wait()
	// The id of a group is not reused while the group has a member.
	killGroup(g.PID())
	return err
}

// Terminate sends SIGTERM to the process group. It does nothing on systems without process groups.
func (g *Group) Terminate() { terminateGroup(g.PID()) }

// Kill sends SIGKILL to the process group, or kills only the child process on systems without process groups.
func (g *Group) Kill() {
	killGroup(g.PID())
	_ = g.cmd.Process.Kill() // for systems without process groups
}
