package procgroup

import "os"

// A Starter starts commands on behalf of this process.
type Starter interface {
	// Start starts a command with the given standard streams, which it does not close. The command
	// becomes the leader of its own process group.
	Start(command []string, stdin, stdout, stderr *os.File) (Child, error)
}

// A Child is a started process with its process group.
type Child interface {
	// Wait waits for the process to exit and kills the rest of its group. The error describes the
	// exit status; it is nil for status 0.
	Wait() error
	// Terminate sends SIGTERM to the process group.
	Terminate()
	// Kill sends SIGKILL to the process group.
	Kill()
}
