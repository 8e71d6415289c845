package child

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

	"github.com/agent-runner/agent-runner/internal/fairshare"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Pool starts child processes. It is safe for concurrent use.
type Pool struct {
	program string
	opts    Options
	slots   *fairshare.Semaphore

	running context.Context // canceled when the pool is closed
	stop    context.CancelCauseFunc
}

// NewPool returns a pool. It returns an error in a child, or if an option is negative.
func NewPool(opts Options) (*Pool, error) {
	if IsChild() {
		return nil, errIsChild
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	program, err := thisProgram()
	if err != nil {
		return nil, fmt.Errorf("compile in a child: %w", err)
	}
	// If there are several slots, one tenant can use all but one, so that it never blocks all others. Jobs without a
	// tenant belong to the operator and can use every slot.
	slots := fairshare.NewSemaphore(opts.MaxProcesses, max(1, opts.MaxProcesses-1), fairshare.Unlimited)
	slots.Exempt("")
	p := &Pool{program: program, opts: opts, slots: slots}
	p.running, p.stop = context.WithCancelCause(context.Background())
	return p, nil
}

// Close kills the children. Their work, and all work that is requested later, fails with cause.
func (p *Pool) Close(cause error) { p.stop(cause) }

// InUse returns the number of children that run or are about to start.
func (p *Pool) InUse() int { return p.slots.InUse() }

// errTimeout is the cause with which run cancels the context of a child that takes too long.
var errTimeout = errors.New("the child process exceeded its time limit")

// Compile lets a child write the machine code of a module to dir. tenant may be empty. The error is
// a [*verify.RefusedError] if the module is invalid or its compilation exceeds a limit or crashes.
// Otherwise it is the cause of ctx, the cause passed to Close, or an error of the operating system.
func (p *Pool) Compile(ctx context.Context, tenant, dir string, module []byte) error {
	return p.run(ctx, tenant, dir, Job{Input: module}, &prefixBuffer{})
}

// Run lets a child do a job and returns its output. dir is the child's working directory. If the
// handler fails, the error has the message of the handler's error. Otherwise it is a
// [*verify.RefusedError] if the job exceeded a limit or crashed, the cause of ctx, the cause passed
// to Close, or an error of the operating system.
func (p *Pool) Run(ctx context.Context, tenant, dir string, job Job) ([]byte, error) {
	out := &limitedBuffer{max: maxOutput}
	if err := p.run(ctx, tenant, dir, job, out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// An output receives the bytes that a child writes to stdout, including the message of its error.
type output interface {
	io.Writer
	String() string
}

// run lets a child in the directory dir do job, or compile job.Input if the job has no name. stdout
// receives the output.
func (p *Pool) run(ctx context.Context, tenant, dir string, job Job, stdout output) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.running, func() { cancel(context.Cause(p.running)) })()
	release, err := p.slots.Acquire(ctx, tenant)
	if err != nil {
		return err
	}
	defer release(0)
	limits := p.limitsOf(job)
	cmd := exec.CommandContext(ctx, p.program)
	cmd.Args = []string{os.Args[0], childArg}
	cmd.Env = childEnviron()
	cmd.Dir = dir
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return killChild(cmd.Process) }
	cmd.WaitDelay = time.Second
	stderr := &prefixBuffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = feed(cmd, job, limits, cancel)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout):
		return limitExceeded(job.Name, p.opts.Timeout.String(), "time")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &exit):
		return fmt.Errorf("sandbox: compile in a child: %w", err)
	}
	return limits.explain(job.Name, exit, stdout.String(), stderr.String())
}

// limits are the limits of a child. The child sets the limits on memory and processor time on
// itself; the parent enforces the timeout.
type limits struct {
	memory  int64
	cpu     time.Duration
	timeout time.Duration // see Options.Timeout
}

// limitsOf returns the limits of a child that does the job.
func (p *Pool) limitsOf(job Job) limits {
	l := limits{p.opts.MemoryBytes, p.opts.Timeout * time.Duration(runtime.NumCPU()), p.opts.Timeout}
	if job.MemoryBytes > 0 {
		l.memory = min(l.memory, job.MemoryBytes)
	}
	if job.CPUTime > 0 {
		l.cpu = min(l.cpu, job.CPUTime)
	}
	return l
}

// waitFactor bounds the time that a child may wait for processors of a busy machine: it is killed
// after about waitFactor times its timeout, even if it has used less processor time than the
// timeout.
const waitFactor = 10

// watch calls end with errTimeout when the child pid has exceeded the timeout. On a busy machine, a child that has
// used less processor time than the timeout may continue for up to waitFactor times the timeout. The caller must call
// stop when the child has ended.
func (l limits) watch(pid int, end context.CancelCauseFunc) (stop func()) {
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		for wait := l.timeout; ; {
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
			used, err := processorTime(pid)
			if err != nil || used >= l.timeout || time.Since(began)/waitFactor >= l.timeout {
				end(errTimeout)
				return
			}
			wait = max(l.timeout-used, 10*time.Millisecond)
		}
	}()
	return func() { close(ended) }
}

// feed starts cmd and waits until it ends. If cmd exceeds the timeout, feed calls cancel, which kills it. feed writes
// the limits and the input (a module or the job's input) to the child's stdin. It closes stdin only after the child
// has exited, because the end of stdin tells a child that its parent has ended.
func feed(cmd *exec.Cmd, job Job, limits limits, cancel context.CancelCauseFunc) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer limits.watch(cmd.Process.Pid, cancel)()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		header := request{
			Magic:       requestMagic,
			InputBytes:  uint32(len(job.Input)),
			PathBytes:   uint32(len(job.Directory)),
			MemoryBytes: uint64(limits.memory),
			CPUSeconds:  uint64(math.Ceil(limits.cpu.Seconds())),
		}
		copy(header.Job[:], job.Name)
		// Errors are ignored, because a child that does not read all of its input reports why.
		_ = binary.Write(stdin, binary.LittleEndian, header)
		_, _ = io.WriteString(stdin, job.Directory)
		_, _ = stdin.Write(job.Input)
	}()
	err = cmd.Wait()
	<-fed
	return err
}

// outOfMemoryTexts are the messages that the runtimes of Go and C, and wazero, print when no memory is left. A new
// thread needs memory for its stack, and without it Go's runtime crashes with a segmentation violation. The race
// detector prints the last message of the list.
var outOfMemoryTexts = []string{
	"out of memory",
	"cannot allocate memory",
	"pthread_create failed",
	"failed to create new OS thread",
	"SIGSEGV: segmentation violation",
	"ThreadSanitizer failed to allocate",
}

// explain returns the error of a child that failed with exit. job is the name of the job, or empty for a compilation.
// stdout and stderr are the outputs of the child.
func (l limits) explain(job string, exit *exec.ExitError, stdout, stderr string) error {
	lacksMemory := func(text string) bool { return strings.Contains(stderr, text) }
	switch code := exit.ExitCode(); {
	case code == exitInvalid && job != "":
		return errors.New(stdout)
	case code == exitInvalid:
		return verify.Invalid(errors.New(stdout))
	case code == exitNoHandler:
		return fmt.Errorf("sandbox: the child has no job %s: pass it to CompileChildMain, at the beginning of main", job)
	case code == exitNoJail:
		return fmt.Errorf("sandbox: confine the child that compiles: %s", stdout)
	case code == exitNoDisk:
		return &fs.PathError{Op: "compile", Path: "the cache of compiled modules", Err: errors.New(stdout)}
	case strings.Contains(stderr, "SIGXCPU"),
		code == -1 && exit.UserTime()+exit.SystemTime() >= l.cpu/10*9: // the kernel kills it at its limit
		return limitExceeded(job, l.cpu.String()+" of processor time", "time")
	case code == exitNoMemory,
		slices.ContainsFunc(outOfMemoryTexts, lacksMemory),
		code == -1: // a signal: the kernel's, when the machine has no memory left
		return limitExceeded(job, text.Bytes(l.memory)+" of memory", "memory")
	default:
		line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
		what := "cannot be compiled: the compiler"
		if job != "" {
			what = activity(job)
		}
		return &verify.RefusedError{Reason: fmt.Sprintf("%s ended with %v: %s", what, exit, text.Cut(line, 512))}
	}
}

// activity returns a phrase for the work of a child, for error messages.
func activity(job string) string {
	if job == "" {
		return "compiling it"
	}
	return "the job " + job
}

// limitExceeded returns the error for a module or a job that exceeded the limit on a resource.
func limitExceeded(job, limit, resource string) error {
	refused := &verify.RefusedError{Reason: fmt.Sprintf("%s took more than %s", activity(job), limit)}
	if job == "" {
		refused.Fix = fmt.Sprintf("split its largest functions, or raise the %s that compiling may take", resource)
	}
	return refused
}

// maxMessage is the maximum number of bytes that a prefixBuffer stores.
const maxMessage = 8 << 10

// prefixBuffer stores the first maxMessage bytes that are written to it, and drops the rest.
type prefixBuffer struct{ bytes.Buffer }

func (h *prefixBuffer) Write(b []byte) (int, error) {
	if room := maxMessage - h.Len(); room > 0 {
		_, _ = h.Buffer.Write(b[:min(room, len(b))]) // never fails
	}
	return len(b), nil
}

// ReadFrom hides the method of [bytes.Buffer], which has no limit.
func (h *prefixBuffer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{h}, r)
}
