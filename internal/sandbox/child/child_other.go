//go:build !linux

package child

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// thisProgram returns the file that this process runs.
func thisProgram() (string, error) { return os.Executable() }

// childEnviron returns the whole environment of a child. Windows starts no process without
// SYSTEMROOT.
func childEnviron() []string {
	env := []string{childEnv + "=1"}
	if root, ok := os.LookupEnv("SYSTEMROOT"); ok {
		env = append(env, "SYSTEMROOT="+root)
	}
	return env
}

func childAttr() *syscall.SysProcAttr { return nil }

func killChild(p *os.Process) error { return p.Kill() }

// processorTime returns an error, because this system does not report it. The timeout therefore
// also counts the time in which a child waits for a processor.
func processorTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// limitChild does nothing. On this system only watchMemory and the parent's timeout limit a child.
func limitChild(uint64, uint64) error { return nil }
