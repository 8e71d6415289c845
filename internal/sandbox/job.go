package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// A ChildJob is work beside compiling that a host leaves to children, since it
// could take as much time and memory as whoever wrote its input likes. It is known
// by its name on both sides.
type ChildJob struct {
	Name string // 1 to 16 bytes
	// Do runs in the child, which is confined to the files that the [Job] names. The
	// parent returns the text of its error.
	Do func(input []byte) (output []byte, err error)
}

// A Job is one execution of a [ChildJob].
type Job struct {
	Name  string
	Input []byte
	// Directory is the absolute path of a directory whose files the job can read. If it is
	// empty, the job can open no file.
	Directory string
	// MemoryBytes and CPUTime lower the limits of [ChildOptions] for the job. CPUTime
	// is processor time, which only Linux bounds. Optional.
	MemoryBytes int64
	CPUTime     time.Duration
}

var (
	// ErrNoChildren is the answer of RunJob without Options.CompileChild.
	ErrNoChildren = errors.New("sandbox: there are no children")

	errNoJob     = errors.New("no such job")
	errTooMuch   = errors.New("too much output")
	maxJobOutput = 256 << 20
)

// RunJob lets a child do a job within the limits of [ChildOptions], and returns its
// output. The error has the text of the job's own; it is a *RefusedError if the job
// passed a limit, ErrNoChildren, ctx's cause, or one of the machine.
func (s *Sandbox) RunJob(ctx context.Context, job Job) ([]byte, error) {
	if s.children == nil {
		return nil, ErrNoChildren
	}
	dir, err := s.disk.tempDir()
	if err != nil {
		return nil, fmt.Errorf("sandbox: job %s: %w", job.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := &bounded{most: maxJobOutput}
	if err := s.children.run(ctx, s.running, dir, job, out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// bounded is a buffer that takes no more than so many bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}

// ReadFrom hides the buffer's own, which has no limit.
func (b *bounded) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{b}, r)
}

func doJob(name string, input []byte, out io.Writer, jobs []ChildJob) error {
	i := slices.IndexFunc(jobs, func(j ChildJob) bool { return j.Name == name })
	if i < 0 {
		return errNoJob
	}
	b, err := jobs[i].Do(input)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}
