package tck

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/tck/wire"
)

// Limits of what a program may write. The largest case needs less than a twentieth of them.
const (
	maxLine   = 256 << 10 // bytes of one line
	maxAnswer = 2 << 20   // bytes of the answer to one case
	maxStderr = 4 << 10   // bytes of the standard error that reports quote
)

// maxBroken is the number of cases in a row that a program may break, by a crash or a violation of
// the protocol, before the kit stops starting it.
const maxBroken = 5

// exitTimeout is the time that a program gets to exit after its standard input or output closed.
const exitTimeout = 2 * time.Second

// A Program is a [Host] in a process of its own, which speaks JSON lines as README.md describes. A
// process that breaks the protocol, exits or exceeds the time limit is killed, its case fails, and
// the next case starts a new one. A Program runs one case at a time.
type Program struct {
	path string
	args []string

	mu      sync.Mutex
	process *process    // nil before the first case, and after a failure
	hello   *wire.Hello // of the first process
	broken  int         // cases in a row that failed with the process
}

// NewProgram returns the host that an executable and its arguments start. The caller closes it.
func NewProgram(path string, args ...string) *Program { return &Program{path: path, args: args} }

// Hello starts the program, unless it runs, and returns what it says of itself.
func (p *Program) Hello(ctx context.Context) (*wire.Hello, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	return p.hello, nil
}

// Run has the program run one case.
func (p *Program) Run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken >= maxBroken {
		return nil, fmt.Errorf("not run: the host broke %d cases in a row", maxBroken)
	}
	if p.process == nil {
		if err := p.start(ctx); err != nil {
			p.broken++
			return nil, err
		}
	}
	o, err := p.process.run(ctx, r)
	var reported *reportedError
	if err == nil || errors.As(err, &reported) {
		p.broken = 0
		return o, errors.Unwrap(err)
	}
	p.broken++
	err = p.process.close(err)
	p.process = nil
	return nil, err
}

// Close closes the program's standard input, waits a short time for it to exit, and kills it if it
// does not.
func (p *Program) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return nil
	}
	err := p.process.close(nil)
	p.process = nil
	return err
}

// start starts a process and greets it.
func (p *Program) start(ctx context.Context) error {
	s, err := startProcess(p.path, p.args)
	if err != nil {
		return err
	}
	hello, err := s.greet(ctx)
	if err != nil {
		return s.close(err)
	}
	p.process, p.hello = s, hello
	return nil
}

// A process is a running program.
type process struct {
	cmd    *exec.Cmd
	in     *os.File // its standard input
	out    *os.File // its standard output
	lines  *bufio.Reader
	stderr tail
}

func startProcess(path string, args []string) (*process, error) {
	inRead, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inRead.Close()
	out, outWrite, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer outWrite.Close()
	s := &process{cmd: exec.Command(path, args...), in: in, out: out, lines: bufio.NewReader(out)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = inRead, outWrite, &s.stderr
	s.cmd.WaitDelay = exitTimeout
	startTree(s.cmd)
	if err := s.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start the host: %w", err)
	}
	return s, nil
}

// greet exchanges the first lines.
func (s *process) greet(ctx context.Context) (*wire.Hello, error) {
	defer s.bound(ctx)()
	if err := writeLine(s.in, wire.Hello{Type: "hello", Protocol: wire.Protocol}); err != nil {
		return nil, s.stopped(ctx)
	}
	var hello wire.Hello
	budget := maxAnswer
	line, err := s.line(ctx, &budget)
	if err != nil {
		return nil, err
	}
	if err := decodeLine(line, &hello); err != nil {
		return nil, err
	}
	if hello.Type != "hello" {
		return nil, fmt.Errorf("the first line is no hello: %s", quote(line))
	}
	return &hello, nil
}

// A reportedError is an error that the program reported as the protocol has it.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

// run sends a request and reads the answer.
func (s *process) run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	defer s.bound(ctx)()
	if err := writeLine(s.in, r); err != nil {
		return nil, s.stopped(ctx)
	}
	o := &wire.Outcome{}
	for budget := maxAnswer; ; {
		text, err := s.line(ctx, &budget)
		if err != nil {
			return nil, err
		}
		var l wire.Line
		if err := decodeLine(text, &l); err != nil {
			return nil, err
		}
		if l.ID != r.ID {
			return nil, fmt.Errorf("a line has the id %s: %s", strconv.Quote(l.ID), quote(text))
		}
		switch l.Type {
		case typeResult:
			o.State, o.Refused = l.State, l.Refused
			return o, nil
		case typeSkipped:
			return nil, &reportedError{&SkippedError{Reason: l.Reason}}
		case typeFailed:
			return nil, &reportedError{errors.New("the host reports: " + l.Reason)}
		}
		if err := add(o, &l); err != nil {
			return nil, fmt.Errorf("%w: %s", err, quote(text))
		}
	}
}

// add adds a line that precedes the result.
func add(o *wire.Outcome, l *wire.Line) error {
	switch {
	case l.Type == typeEvent && l.Event != nil:
		o.Events = append(o.Events, *l.Event)
	case l.Type == typeModelCall && l.ModelCall != nil:
		o.ModelCalls = append(o.ModelCalls, *l.ModelCall)
	case l.Type == typeClient && l.Client != nil:
		o.Client = append(o.Client, l.Client)
	case l.Type == typeEvent, l.Type == typeModelCall, l.Type == typeClient:
		return fmt.Errorf("a line of type %s has no %s", l.Type, l.Type)
	default:
		return fmt.Errorf("%s is no type of a line", strconv.Quote(l.Type))
	}
	return nil
}

// bound kills the process when ctx ends, which unblocks reads and writes. The caller calls the
// function that it returns when it no longer reads and writes.
func (s *process) bound(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, s.kill)
	return func() { stop() }
}

func (s *process) kill() {
	killTree(s.cmd)
	s.in.Close()
	s.out.Close() // a descendant may hold the other end open
}

// line reads a line, without its end, and subtracts its size from the budget of the answer.
func (s *process) line(ctx context.Context, budget *int) ([]byte, error) {
	limit := min(maxLine, *budget)
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		if len(line)+len(part) > limit {
			if limit < maxLine {
				return nil, fmt.Errorf("the answer exceeds %d bytes", maxAnswer)
			}
			return nil, fmt.Errorf("a line exceeds %d bytes; it begins with %s", maxLine, quote(append(line, part...)))
		}
		line = append(line, part...)
		switch {
		case err == nil:
			*budget -= len(line)
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > 0:
			return nil, fmt.Errorf("%w in the middle of a line: %s", s.stopped(ctx), quote(line))
		default:
			return nil, s.stopped(ctx)
		}
	}
}

var errEnded = errors.New("the host's input or output ended")

// stopped returns why a read or a write failed.
func (s *process) stopped(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return errEnded
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("the host exceeded the time limit")
	default:
		return ctx.Err()
	}
}

// close ends the process. It returns why, if that is an error, or else how the process ended if it
// did not exit with code 0, and adds the end of the standard error to it.
func (s *process) close(why error) error {
	s.in.Close()
	if why != nil && !errors.Is(why, errEnded) {
		s.kill()
	}
	timer := time.AfterFunc(exitTimeout, s.kill)
	go func() { _, _ = io.Copy(io.Discard, s.out) }() // a program that still writes can exit
	exit := s.cmd.Wait()
	timer.Stop()
	s.out.Close()
	switch {
	case why == nil && exit == nil:
		return nil
	case why == nil:
		why = fmt.Errorf("end the host: %w", exit)
	case errors.Is(why, errEnded) && exit != nil:
		why = fmt.Errorf("%w (%w)", why, exit)
	}
	if text := s.stderr.String(); text != "" {
		why = fmt.Errorf("%w; its standard error ends with:\n%s", why, text)
	}
	return why
}

// decodeLine decodes one line strictly.
func decodeLine(line []byte, v any) error {
	unknown, err := abijson.Decode(line, v)
	switch {
	case err != nil:
		return fmt.Errorf("a line is not as the protocol has it: %w: %s", err, quote(line))
	case len(unknown) > 0:
		return fmt.Errorf("a line has the unknown key %s: %s", strconv.Quote(unknown[0]), quote(line))
	}
	return nil
}

// quote quotes the beginning of a line.
func quote(line []byte) string {
	const most = 200
	if len(line) > most {
		return strconv.Quote(string(line[:most])) + "…"
	}
	return strconv.Quote(string(line))
}

// A tail keeps the last maxStderr bytes that are written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write adds bytes and forgets the oldest.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b[max(0, len(b)-maxStderr):]...)
	t.b = append(t.b[:0], t.b[max(0, len(t.b)-maxStderr):]...)
	return len(b), nil
}

// String returns the kept bytes as text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.b)), "\uFFFD")
}
