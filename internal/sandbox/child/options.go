// Package child runs work in confined child processes: it compiles modules, and does jobs
// that a host registers with [Main].
//
// The time and memory that wazero's compiler takes grow faster than its input, and a panic
// in one of its goroutines ends its process. A host that accepts modules from strangers
// should therefore compile them in another process. A [Pool] starts one process per module
// or job, bounds its time and memory, and shares the processes fairly between tenants.
//
// A child is the same program as its parent. A program that uses a pool therefore begins
// main with
//
//	if child.IsChild() {
//		os.Exit(child.Main())
//	}
//
// and passes the handlers of its jobs to Main; package host has a function that does so.
//
// A child gets no environment variables but the one that marks it as a child (on Windows
// also SYSTEMROOT), and no open files but the pipes of stdin, stdout and stderr. On Linux
// it runs at a low priority. There it also confines itself before it reads its input: it
// can open no socket, start no process and reach no other process. The only files that it
// can open are those below the directory for its machine code; a job can open none, or
// read those below one directory, see [Job]. [MissingProtections] reports which of these
// the kernel cannot enforce.
//
// The package imports internal/jail and the packages verify and engine. It does not depend on the purpose of modules
// or jobs.
package child

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Options bound child processes.
type Options struct {
	// MemoryBytes is the memory that a child may use. The child checks its usage every few
	// milliseconds. On Linux the kernel also enforces a limit that is a quarter higher. The default
	// is 1 GiB.
	MemoryBytes int64

	// Timeout bounds a compilation or job, from the start of the child to its end, without the time in the queue. On
	// Linux, a child that has used less processor time than Timeout may continue for up to ten times Timeout, so that
	// it does not fail because the machine is busy. Its processor time is also bounded by Timeout times the number of
	// processors. The default is 30 s.
	Timeout time.Duration

	// MaxProcesses is the maximum number of children that run concurrently. Further work waits in a
	// queue that tenants share fairly. If MaxProcesses is more than 1, a tenant uses at most
	// MaxProcesses-1 children; work without a tenant can use all. The default is half the number of
	// processors, but at least 2.
	MaxProcesses int
}

// withDefaults returns the options with defaults, or an error if a value is negative.
func (o Options) withDefaults() (Options, error) {
	if o.MemoryBytes < 0 || o.Timeout < 0 || o.MaxProcesses < 0 {
		return o, fmt.Errorf("compile in a child: a limit is negative: %+v", o)
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 1 << 30
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxProcesses == 0 {
		o.MaxProcesses = max(2, runtime.NumCPU()/2)
	}
	return o, nil
}

// errIsChild is the error of NewPool in a child. A program that reaches NewPool there would
// start children recursively.
var errIsChild = errors.New(
	"compile in a child: this process is a child; call host.CompileChildMain at the beginning of main",
)
