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
	if err := limitChild(order.MemoryBytes, order.CPUSeconds); err != nil {
		return fmt.Errorf("set limits: %w", err)
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

	if job := strings.TrimRight(string(order.Job[:]), "\x00"); job != "" {
		return doJob(job, module, out, jobs)
	}
	return compileHere(module)
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
