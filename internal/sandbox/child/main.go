package child

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
	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/symbol"
)

// IsChild reports whether this process is a child. In a child, main should call [Main] and exit.
func IsChild() bool {
	return os.Getenv(childEnv) != "" && slices.Equal(os.Args[1:], []string{childArg})
}

// Main does the work of a child and returns the exit code of the process. It compiles a
// module, or does a job with one of the handlers or that of package symbol.
func Main(handlers ...Handler) int {
	err := serve(os.Stdin, os.Stdout, append(handlers, Handler{Name: symbol.JobName, Do: symbol.ReadableLines}))
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNoHandler):
		return exitNoHandler
	case errors.Is(err, errNoJail):
		fmt.Fprint(os.Stdout, err)
		return exitNoJail
	case engine.IsCacheError(err):
		fmt.Fprint(os.Stdout, err)
		return exitNoDisk
	default:
		fmt.Fprint(os.Stdout, err)
		return exitInvalid
	}
}

// serve reads a request, applies its limits, and compiles the module to the working
// directory or does the job.
func serve(in io.Reader, out io.Writer, handlers []Handler) error {
	var header request
	if err := binary.Read(in, binary.LittleEndian, &header); err != nil || header.Magic != requestMagic {
		return errors.New("this is not the beginning of a request; only the host starts this command")
	}
	directory := make([]byte, header.PathBytes)
	if _, err := io.ReadFull(in, directory); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	job := strings.TrimRight(string(header.Job[:]), "\x00")
	if err := limitChild(header.MemoryBytes, header.CPUSeconds); err != nil {
		return fmt.Errorf("%w: set limits: %w", errNoJail, err)
	}
	if err := confine(job, string(directory)); err != nil {
		return fmt.Errorf("%w: %w", errNoJail, err)
	}
	limit := int64(min(header.MemoryBytes, math.MaxInt64))
	debug.SetMemoryLimit(limit / 8 * 7) // near it, garbage collections become frequent
	go watchMemory(limit)
	input := make([]byte, header.InputBytes)
	if _, err := io.ReadFull(in, input); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1) //nolint:forbidigo // the parent is gone, and nothing can stop the compiler
	}()

	if job != "" {
		return doJob(job, input, out, handlers)
	}
	return compile(input)
}

// errNoJail reports that a child could not set its limits or confine itself.
var errNoJail = errors.New("this process is not confined")

// MissingProtections names the protections of children that this system lacks. It returns
// "" if none is missing.
func MissingProtections() string { return jail.Support().Missing() }

// confine confines this process, a child. A child that compiles can access the working directory, a job with a
// directory can read the files below that directory, and other jobs can open no file.
func confine(job, directory string) error {
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

// compile writes the machine code of a module to the working directory.
func compile(module []byte) error {
	cache, err := wazero.NewCompilationCacheWithDir(".")
	if err != nil {
		return err
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0))
	_, err = wazero.NewRuntimeWithConfig(ctx, engine.Config(false).WithCompilationCache(cache)).CompileModule(ctx, module)
	return err // the process exits, so that nothing has to be closed
}

// watchMemory exits this process, a child, when the Go runtime uses more than limit bytes. The
// kernel's limit on Linux is a quarter higher, and a process that exceeds it cannot report that.
func watchMemory(limit int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(5 * time.Millisecond) {
		metrics.Read(samples)
		if int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()) > limit {
			os.Exit(exitNoMemory) //nolint:forbidigo // nothing else can stop the compiler
		}
	}
}
