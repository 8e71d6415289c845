package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ChildOptions bound the processes in which modules are compiled. The time and
// memory that wazero's compiler takes grow faster than its input, and a panic
// of one of its goroutines ends the process that it is in: a host that takes
// modules from strangers should compile them in another one.
//
// The child is the same program. So whoever sets this begins main with
//
//	if sandbox.IsCompileChild() {
//		os.Exit(sandbox.CompileChildMain())
//	}
//
// and gives CompileChildMain the jobs that its host leaves to children; package
// host has a function that does so.
//
// The child gets no environment and no open files, and runs at a low priority. On
// Linux it confines itself before it reads its input: it can open no socket, start
// no process and reach no other one, and the only files that it can open are
// those below the directory that its machine code goes to. A job opens none, or
// reads those below one directory, see [Job]. [JailSupport] reports which of this
// the kernel can enforce. If wazero interprets on this platform, there is no child.
type ChildOptions struct {
	// MemoryBytes is how much memory a child may hold. It looks at that itself,
	// every few milliseconds; on Linux the system stops it at a quarter more.
	// Default 1 GiB.
	MemoryBytes int64

	// Time is how long a compilation may take, from the child's start to its
	// end; waiting for a turn does not count. On Linux processor time is bounded
	// too, to that of all processors during it. Default 30 s.
	Time time.Duration

	// Most is how many children run at once. Further modules wait, in a queue that
	// sharers share fairly: if there are several children, a [Sharer] with a name
	// gets all but one at most. Default half the processors, at least two.
	Most int
}

const (
	// childArg is the child's one argument, for whoever looks at a list of
	// processes, and childEnv what makes it a child.
	childArg = "compile-module"
	childEnv = "AGENT_RUNNER_COMPILE_CHILD"

	// Exit codes of a child. 2 is what the Go runtime ends with.
	childInvalid  = 3 // the module is not valid, or the job failed
	childNoDisk   = 4 // the machine code cannot be written
	childNoMemory = 5 // it took more memory than it may
	childNoJob    = 6 // its program does not know the job
	childNoJail   = 7 // it could not set its limits or confine itself

	childText = 8 << 10 // bytes that are kept of what a child says
)

// childOrder is what a child reads first, in little endian. The path of the directory
// that a job may read follows, then the module or the job's input.
type childOrder struct {
	Magic       [4]byte
	ModuleBytes uint32
	PathBytes   uint32
	Job         [16]byte // zeros: compile
	MemoryBytes uint64
	CPUSeconds  uint64
}

var childMagic = [4]byte{'c', 'h', 'd', '3'}

// children start the processes that compile.
type children struct {
	program string
	opts    ChildOptions
	slots   *slots
}

// newChildren fails in a child, since a program that gets that far there would
// start children of its own.
func newChildren(opts ChildOptions) (*children, error) {
	if IsCompileChild() {
		return nil, errors.New("compile in a child: this process is one; call IsCompileChild at the beginning of main, see ChildOptions")
	}
	if opts.MemoryBytes < 0 || opts.Time < 0 || opts.Most < 0 {
		return nil, fmt.Errorf("compile in a child: a limit is negative: %+v", opts)
	}
	def(&opts.MemoryBytes, 1<<30)
	def(&opts.Time, 30*time.Second)
	def(&opts.Most, max(2, runtime.NumCPU()/2))
	program, err := thisProgram()
	if err != nil {
		return nil, fmt.Errorf("compile in a child: %w", err)
	}
	return &children{program, opts, newSlots(opts.Most)}, nil
}

// errTooSlow ends a child that takes too long.
var errTooSlow = errors.New("the child takes too long")

// compile lets a child write the machine code of a module to dir. It fails with
// a *RefusedError if that is the module's fault, with the cause of ctx or running, and
// for reasons of the machine.
func (c *children) compile(ctx, running context.Context, dir string, module []byte) error {
	return c.run(ctx, running, dir, Job{Input: module}, &head{})
}

// An output is what a child writes to stdout, and what it says if it fails.
type output interface {
	io.Writer
	String() string
}

// run lets a child do a job, or compile if the job has no name, until ctx or running ends.
// The child's working directory is dir.
func (c *children) run(ctx, running context.Context, dir string, job Job, stdout output) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(running, func() { cancel(context.Cause(running)) })()
	release, err := c.slots.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	limits := c.limitsOf(job)
	ctx, stop := context.WithTimeoutCause(ctx, c.opts.Time, errTooSlow)
	defer stop()
	cmd := exec.CommandContext(ctx, c.program)
	cmd.Args = []string{os.Args[0], childArg}
	cmd.Env = childEnviron()
	cmd.Dir = dir
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return killChild(cmd.Process) }
	cmd.WaitDelay = time.Second
	stderr := &head{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = feed(cmd, job, limits)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errTooSlow):
		return tooMuch(job.Name, c.opts.Time.String(), "time")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &exit):
		return fmt.Errorf("sandbox: compile in a child: %w", err)
	}
	return limits.explain(job.Name, exit, stdout.String(), stderr.String())
}

// childLimits are the limits that a child sets itself.
type childLimits struct {
	memory int64
	cpu    time.Duration
}

// limitsOf returns the limits of a child that does the job.
func (c *children) limitsOf(job Job) childLimits {
	l := childLimits{c.opts.MemoryBytes, c.opts.Time * time.Duration(runtime.NumCPU())}
	if job.MemoryBytes > 0 {
		l.memory = min(l.memory, job.MemoryBytes)
	}
	if job.CPUTime > 0 {
		l.cpu = min(l.cpu, job.CPUTime)
	}
	return l
}

// feed runs the child on the module or input. It keeps the child's stdin open until
// the child has ended, which takes the end of stdin for the end of this process.
func feed(cmd *exec.Cmd, job Job, limits childLimits) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		order := childOrder{
			Magic: childMagic, ModuleBytes: uint32(len(job.Input)), PathBytes: uint32(len(job.Directory)), MemoryBytes: uint64(limits.memory),
			CPUSeconds: uint64(math.Ceil(limits.cpu.Seconds())),
		}
		copy(order.Job[:], job.Name)
		// A child that does not take it all has its reasons, and tells them.
		_ = binary.Write(stdin, binary.LittleEndian, order)
		_, _ = io.WriteString(stdin, job.Directory)
		_, _ = stdin.Write(job.Input)
	}()
	err = cmd.Wait()
	<-fed
	return err
}

// memoryTexts are what the Go and C runtimes and wazero print when there is no
// more memory; a new thread needs some for its stack, and Go's runtime dies of a
// segmentation violation where it gets none; the last is the race detector's.
var memoryTexts = []string{"out of memory", "cannot allocate memory", "pthread_create failed", "failed to create new OS thread", "SIGSEGV: segmentation violation", "ThreadSanitizer failed to allocate"}

// explain says what a child that failed died of.
func (l childLimits) explain(job string, exit *exec.ExitError, stdout, stderr string) error {
	lacksMemory := func(text string) bool { return strings.Contains(stderr, text) }
	switch code := exit.ExitCode(); {
	case code == childInvalid && job != "":
		return errors.New(stdout)
	case code == childInvalid:
		return invalid(errors.New(stdout))
	case code == childNoJob:
		return fmt.Errorf("sandbox: the child does not know the job %s: give it to CompileChildMain, at the beginning of main", job)
	case code == childNoJail:
		return fmt.Errorf("sandbox: confine the child that compiles: %s", stdout)
	case code == childNoDisk:
		return &fs.PathError{Op: "compile", Path: "the cache of compiled modules", Err: errors.New(stdout)}
	case strings.Contains(stderr, "SIGXCPU"), code == -1 && exit.UserTime()+exit.SystemTime() >= l.cpu/10*9: // the kernel kills it at its limit
		return tooMuch(job, l.cpu.String()+" of processor time", "time")
	case code == childNoMemory, slices.ContainsFunc(memoryTexts, lacksMemory), code == -1: // a signal: the kernel's, when the machine has no memory left
		return tooMuch(job, bytesText(l.memory)+" of memory", "memory")
	default:
		line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
		what := "cannot be compiled: the compiler"
		if job != "" {
			what = doing(job)
		}
		return &RefusedError{Reason: fmt.Sprintf("%s ended with %v: %s", what, exit, cut(line, 512))}
	}
}

// doing is what a child was about.
func doing(job string) string {
	if job == "" {
		return "compiling it"
	}
	return "the job " + job
}

// tooMuch is the refusal of a module, or of a job, that took more than it may.
func tooMuch(job, most, of string) error {
	refused := &RefusedError{Reason: fmt.Sprintf("%s took more than %s", doing(job), most)}
	if job == "" {
		refused.Fix = fmt.Sprintf("split its largest functions, or raise the %s that compiling may take", of)
	}
	return refused
}

// invalid is the refusal of a module that wazero found something wrong with.
// Only the types of operands are left to it.
func invalid(err error) error {
	return &RefusedError{Reason: "is not valid: " + err.Error(), Fix: "build it again; the toolchain made a mistake", Err: err}
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	if room := childText - h.Len(); room > 0 {
		_, _ = h.Buffer.Write(b[:min(room, len(b))]) // never fails
	}
	return len(b), nil
}

// ReadFrom hides the buffer's own, which has no limit.
func (h *head) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{h}, r)
}
