//go:build !linux

package child

import (
	"os"
	"syscall"
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

// limitChild does nothing: the garbage collector and the parent's timeout bound the child.
func limitChild(uint64, uint64) error { return nil }
