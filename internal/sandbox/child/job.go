package child

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"
)

// A Handler does a kind of job in a child.
type Handler struct {
	// Name identifies the handler in parent and child. It has 1 to 16 bytes.
	Name string
	// Do runs in the child. The parent returns an error with the message of Do's error.
	Do func(input []byte) (output []byte, err error)
}

// A Job is work for a [Handler]. Its input is untrusted, and determines the time and the memory that the job takes
// within the limits.
type Job struct {
	Name  string // the handler's name
	Input []byte
	// Directory is the absolute path of a directory whose files the job can read. If it is
	// empty, the job can open no file.
	Directory string
	// MemoryBytes and CPUTime lower the limits of [Options] for this job. CPUTime is
	// processor time, which only Linux bounds. A value of 0 leaves the limit unchanged.
	MemoryBytes int64
	CPUTime     time.Duration
}

var (
	errNoHandler = errors.New("no such job")
	errTooMuch   = errors.New("too much output")
)

// maxOutput bounds the output of a job in bytes.
const maxOutput = 256 << 20

// limitedBuffer is a buffer whose writes fail if its length would exceed max bytes.
type limitedBuffer struct {
	bytes.Buffer
	max int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}

// ReadFrom hides the method of [bytes.Buffer], which has no limit.
func (b *limitedBuffer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{b}, r)
}

// doJob calls the handler with the given name, and writes its output to out. The child calls doJob.
func doJob(name string, input []byte, out io.Writer, handlers []Handler) error {
	i := slices.IndexFunc(handlers, func(h Handler) bool { return h.Name == name })
	if i < 0 {
		return errNoHandler
	}
	b, err := handlers[i].Do(input)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}
