package tck

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/procgroup"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Limits of a program's output. The largest case needs less than a twentieth of each.
const (
	maxLine   = 256 << 10 // bytes of one line
	maxAnswer = 2 << 20   // bytes of the answer to one case
	maxStderr = 4 << 10   // bytes of the standard error that reports quote
)

// maxBroken is the number of consecutive cases in which a program may crash or violate the protocol
// before the kit stops starting it.
const maxBroken = 5

// exitTimeout is the time that a program gets to exit after its standard input or output closed.
const exitTimeout = 2 * time.Second

// A program is a [Host] in a process of its own. It runs one case at a time.
type program struct {
	path string
	args []string

	mu      sync.Mutex
	process *process    // the running process; nil before the first case, and after a failure
	hello   *wire.Hello // the greeting of the first process; nil before it
	broken  int         // number of consecutive cases in which the process broke the protocol or ended
}

// NewProgram returns a host that runs an executable with the given arguments. The process must
// implement the protocol of JSON lines in README.md. A process that breaks the protocol, exits or
// exceeds the time limit is killed, its case fails, and the next case starts a new process.
//
// The caller calls stop after the last case. stop closes the program's standard input, waits up
// to 2 seconds for it to exit, and kills it if it does not. stop returns an error if the exit
// code is not 0.
func NewProgram(path string, args ...string) (h Host, stop func() error) {
	p := &program{path: path, args: args}
	return p, p.close
}

// Hello returns the program's greeting. It starts the program if it is not running.
func (p *program) Hello(ctx context.Context) (*wire.Hello, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	return p.hello, nil
}

// Run runs one case with the program, which it starts if it is not running.
func (p *program) Run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken >= maxBroken {
		return nil, fmt.Errorf("not run: the host broke %d cases in a row", maxBroken)
	}
	if p.process == nil {
		if err := p.start(ctx); err != nil {
			p.broken++
			return nil, fmt.Errorf("greet the host: %w", err)
		}
	}
	o, err := p.process.run(ctx, r)
	if answered(err) {
		p.broken = 0
		return o, err
	}
	p.broken++
	err = p.process.close(err)
	p.process = nil
	return nil, err
}

// close ends the process if it is running. The error describes an exit code other than 0.
func (p *program) close() error {
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
func (p *program) start(ctx context.Context) error {
	s, err := startProcess(p.path, p.args)
	if err != nil {
		return err
	}
	hello, err := s.greet(ctx)
	if err != nil {
		return s.close(err)
	}
	p.process = s
	if p.hello == nil {
		p.hello = hello
	}
	return nil
}

// A process is a running program.
type process struct {
	group  *procgroup.Group
	in     *os.File // standard input of the process
	out    *os.File // standard output of the process
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
	s := &process{in: in, out: out, lines: bufio.NewReader(out)}
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, &s.stderr
	cmd.WaitDelay = exitTimeout // a descendant may hold the standard error open
	if s.group, err = procgroup.Start(cmd); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	return s, nil
}

// greet exchanges the hello lines. It kills the process if ctx is done.
func (s *process) greet(ctx context.Context) (*wire.Hello, error) {
	stop := context.AfterFunc(ctx, s.kill)
	hello, err := s.exchangeHello(ctx)
	if !stop() && err == nil {
		err = s.stopped(ctx)
	}
	return hello, err
}

func (s *process) exchangeHello(ctx context.Context) (*wire.Hello, error) {
	if err := wire.Write(s.in, wire.Hello{Type: "hello", Protocol: wire.Protocol}); err != nil {
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
	return &hello, checkProtocol(&hello)
}

// A reportedError is an error that the program reported in a line of type "failed".
type reportedError struct{ reason string }

func (e *reportedError) Error() string { return "the host reports: " + e.reason }

// answered reports whether the process kept to the protocol. err is the error of [process.run]: nil
// and errors that the program reported mean that it did.
func answered(err error) bool {
	var reported *reportedError
	return err == nil || errors.As(err, &reported)
}

// run sends a request and reads the answer. It kills the process if ctx is done.
func (s *process) run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	stop := context.AfterFunc(ctx, s.kill)
	o, err := s.answer(ctx, r)
	if !stop() && answered(err) { // the process is killed, so the next case needs a new one
		return nil, s.stopped(ctx)
	}
	return o, err
}

func (s *process) answer(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	if err := wire.Write(s.in, r); err != nil {
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
		if err := add(o, &l); err != nil {
			return nil, fmt.Errorf("%w: %s", err, quote(text))
		}
		switch l.Type {
		case wire.TypeResult, wire.TypeSkipped:
			return o, nil
		case wire.TypeFailed:
			return nil, &reportedError{l.Reason}
		}
	}
}

// add adds a line to the outcome. It fails if the type of the line is unknown, or if the line
// lacks the field of its type or has a field of another type.
func add(o *wire.Outcome, l *wire.Line) error {
	if err := checkFields(l); err != nil {
		return err
	}
	switch l.Type {
	case wire.TypeEvent:
		o.Events = append(o.Events, *l.Event)
	case wire.TypeModelCall:
		o.ModelCalls = append(o.ModelCalls, *l.ModelCall)
	case wire.TypeToolCall:
		o.ToolCalls = append(o.ToolCalls, *l.ToolCall)
	case wire.TypeClient:
		o.Client = append(o.Client, l.Client)
	case wire.TypeResult:
		o.State, o.Refused = l.State, l.Refused
	case wire.TypeSkipped:
		o.Skipped = cmp.Or(l.Reason, "the host gives no reason")
	}
	return nil
}

// checkFields checks that a line has the fields of its type and no others.
func checkFields(l *wire.Line) error {
	if !slices.Contains(wire.LineTypes, l.Type) {
		return fmt.Errorf("%s is no type of a line", strconv.Quote(l.Type))
	}
	for _, f := range []struct {
		name   string
		exists bool
		types  []string
	}{
		{"event", l.Event != nil, []string{wire.TypeEvent}},
		{"model_call", l.ModelCall != nil, []string{wire.TypeModelCall}},
		{"tool_call", l.ToolCall != nil, []string{wire.TypeToolCall}},
		{"client", l.Client != nil, []string{wire.TypeClient}},
		{"state", l.State != nil, []string{wire.TypeResult}},
		{"refused", l.Refused != "", []string{wire.TypeResult}},
		{"reason", l.Reason != "", []string{wire.TypeSkipped, wire.TypeFailed}},
	} {
		switch {
		case f.exists && !slices.Contains(f.types, l.Type):
			return fmt.Errorf("a line of type %s has the field %s", l.Type, f.name)
		case !f.exists && f.name == l.Type:
			return fmt.Errorf("a line of type %s has no %s", l.Type, f.name)
		}
	}
	return nil
}

func (s *process) kill() {
	s.group.Kill()
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

// stopped returns the reason why a read or a write failed.
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

// close ends the process and its descendants. If why is nil or errEnded, the process gets
// exitTimeout to exit; otherwise close kills it at once. close returns why or, if why is nil, an
// error for an exit code other than 0. The error quotes the end of the standard error.
func (s *process) close(why error) error {
	s.in.Close()
	if why != nil && !errors.Is(why, errEnded) {
		s.kill()
	}
	timer := time.AfterFunc(exitTimeout, s.kill)
	go func() { _, _ = io.Copy(io.Discard, s.out) }() // a program that still writes can exit
	exit := s.group.Wait()
	timer.Stop()
	if errors.Is(exit, exec.ErrWaitDelay) {
		exit = nil // its exit code is 0, but a descendant held its standard error open
	}
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

// decodeLine decodes one line and rejects unknown keys.
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

// quote quotes at most the first 200 bytes of a line.
func quote(line []byte) string {
	const limit = 200
	if len(line) > limit {
		return strconv.Quote(string(truncate.Text(line, limit))) + "…"
	}
	return strconv.Quote(string(line))
}

// A tail keeps the last maxStderr bytes that are written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write appends b and drops the oldest bytes beyond maxStderr.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b[max(0, len(b)-maxStderr):]...)
	t.b = append(t.b[:0], t.b[max(0, len(t.b)-maxStderr):]...)
	return len(b), nil
}

// String returns the kept bytes as text. It omits the rest of a character whose beginning was dropped.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.b
	for len(b) > maxStderr-(utf8.UTFMax-1) && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(b)), "\uFFFD")
}
