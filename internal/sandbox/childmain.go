package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/jail"
)

// IsCompileChild reports whether this process was started to compile one module,
// which [CompileChildMain] does; see [ChildOptions].
func IsCompileChild() bool {
	return os.Getenv(childEnv) != "" && slices.Equal(os.Args[1:], []string{childArg})
}

// CompileChildMain does what a child is there for and returns the process's exit
// code. It also does the jobs that it is given, for [Sandbox.RunJob].
func CompileChildMain(jobs ...ChildJob) int {
	err := workHere(os.Stdin, os.Stdout, jobs)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNoJob):
		return childNoJob
	case errors.Is(err, errNoJail):
		fmt.Fprint(os.Stdout, err)
		return childNoJail
	case cacheFailed(err):
		fmt.Fprint(os.Stdout, err)
		return childNoDisk
	default:
		fmt.Fprint(os.Stdout, err)
		return childInvalid
	}
}

// workHere compiles what stands in the input, within the limits that stand there,
// into the working directory, or does a job with it.
func workHere(in io.Reader, out io.Writer, jobs []ChildJob) error {
	var order childOrder
	if err := binary.Read(in, binary.LittleEndian, &order); err != nil || order.Magic != childMagic {
		return errors.New("this is not the beginning of an order; only the host starts this command")
	}
	directory := make([]byte, order.PathBytes)
	if _, err := io.ReadFull(in, directory); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	job := strings.TrimRight(string(order.Job[:]), "\x00")
	if err := limitChild(order.MemoryBytes, order.CPUSeconds); err != nil {
		return fmt.Errorf("%w: set limits: %w", errNoJail, err)
	}
	if err := confineChild(job, string(directory)); err != nil {
		return fmt.Errorf("%w: %w", errNoJail, err)
	}
	most := int64(min(order.MemoryBytes, math.MaxInt64))
	debug.SetMemoryLimit(most / 8 * 7) // where the collector begins to try harder
	go watchMemory(most)
	module := make([]byte, order.ModuleBytes)
	if _, err := io.ReadFull(in, module); err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1) //nolint:forbidigo // who started it is gone, and nothing can stop the compiler
	}()

	if job != "" {
		return doJob(job, module, out, jobs)
	}
	return compileHere(module)
}

// errNoJail reports that a child could not give up its rights.
var errNoJail = errors.New("this process is not confined")

// JailSupport names the protections of [ChildOptions] that this system lacks.
// Empty if it has all.
func JailSupport() (missing string) { return jail.Support().Missing() }

// confineChild confines this process, a child, to what it needs: the working
// directory to compile, the files below the directory for a job that has one, and
// no file at all for other jobs.
func confineChild(job, directory string) error {
	var profile jail.Profile
	calls := jail.GoSyscalls()
	switch {
	case job == "":
		profile.Write = []string{"."}
		calls = append(calls, jail.WriteSyscalls()...)
	case directory != "":
		profile.Read = []string{directory}
		calls = append(calls, jail.ReadSyscalls()...)
	}
	var err error
	if profile.Syscalls, err = jail.AllowSyscalls(calls...); err != nil {
		return err
	}
	_, err = profile.Enforce()
	return err
}

func compileHere(module []byte) error {
	cache, err := wazero.NewCompilationCacheWithDir(".")
	if err != nil {
		return err
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0))
	_, err = wazero.NewRuntimeWithConfig(ctx, runtimeConfig(false).WithCompilationCache(cache)).CompileModule(ctx, module)
	return err // the rest ends with the process
}

// watchMemory ends this process, a child, when it holds more memory than most.
// The system's own limit is a little higher: what runs into that cannot say so.
func watchMemory(most int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(5 * time.Millisecond) {
		metrics.Read(samples)
		if int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()) > most {
			os.Exit(childNoMemory) //nolint:forbidigo // nothing else can stop the compiler
		}
	}
}
