//go:build !linux

package sandbox

import (
	"os"
	"syscall"
)

// thisProgram is the file that this process runs.
func thisProgram() (string, error) { return os.Executable() }

// childEnviron is all the environment that a child has. Windows starts nothing
// without its root.
func childEnviron() []string {
	env := []string{childEnv + "=1"}
	if root, ok := os.LookupEnv("SYSTEMROOT"); ok {
		env = append(env, "SYSTEMROOT="+root)
	}
	return env
}

func childAttr() *syscall.SysProcAttr { return nil }

func killChild(p *os.Process) error { return p.Kill() }

// limitChild leaves the limits to the garbage collector and the parent's clock.
func limitChild(uint64, uint64) error { return nil }
