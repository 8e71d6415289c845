package mcp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// A process is a server running as a child of this process.
//
// It has its own process group, so that Ctrl-C in a terminal does not kill it before its calls
// are answered, and so that its descendants are killed with it. A goroutine waits for it from
// the start, so that it does not become a zombie.
type process struct {
	child  procgroup.Child
	stdin  *os.File
	stdout *os.File
	last   lastLines // the last lines of stderr, and of stdout lines that are not messages
	log    func(line string)

	stopping sync.Once
	done     chan struct{} // closed once the process has exited and stderr was read
	err      error         // exit error; valid once done is closed
}

// drainTimeout bounds reading from the pipes of an exited process that a descendant still holds
// open.
const drainTimeout = time.Second

// start starts the command of the options.
func start(o *Options) (*process, error) {
	starter := o.Starter
	if starter == nil {
		starter = &localStarter{dir: o.Dir, env: o.Env}
	}
	var pipes pipes
	defer pipes.closeChild()
	p := &process{done: make(chan struct{})}
	p.log = func(line string) { o.Logger.Debug("MCP server printed", "server", o.Name, "line", line) }
	var stdin, stdout, theirStderr, stderr *os.File
	stdin, p.stdin = pipes.toChild()
	stdout, p.stdout = pipes.fromChild()
	theirStderr, stderr = pipes.fromChild()
	err := pipes.err
	if err != nil {
		err = fmt.Errorf("starting it: %w", err)
	} else {
		p.child, err = starter.Start(o.Command, stdin, stdout, theirStderr)
	}
	if err != nil {
		pipes.closeParent()
		return nil, err
	}
	go p.wait(stderr)
	return p, nil
}

// A localStarter starts commands as children of this process.
type localStarter struct {
	dir string
	env []string // added to this process's environment
}

// Start implements [procgroup.Starter].
func (l *localStarter) Start(command []string, stdin, stdout, stderr *os.File) (procgroup.Child, error) {
	path, err := procgroup.FindProgram(command[0], l.dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Dir = l.dir
	if len(l.env) > 0 {
		cmd.Env = append(os.Environ(), l.env...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	child, err := procgroup.Start(cmd)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// wait reads stderr and waits for the process to exit. Then it reads for at most drainTimeout more.
func (p *process) wait(stderr *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		r := bufio.NewReader(stderr)
		for {
			line, long, err := readLine(r, 64<<10)
			if long != nil {
				line = long.head
			}
			if len(line) > 0 {
				p.log(p.last.add(line))
			}
			if err != nil {
				return
			}
		}
	}()
	p.err = p.child.Wait()
	for _, out := range []*os.File{stderr, p.stdout} {
		if out.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
			out.Close()
		}
	}
	<-read
	stderr.Close()
	close(p.done)
}

// stop closes the process's stdin. If the process has not exited after the grace period, stop sends
// SIGTERM, and after another grace period it kills the process. It returns once the process has
// exited.
func (p *process) stop(grace time.Duration) {
	p.stopping.Do(func() {
		p.stdin.Close()
		if p.endsWithin(grace) {
			return
		}
		p.terminate()
		if p.endsWithin(grace) {
			return
		}
		p.child.Kill()
	})
	<-p.done
}

func (p *process) terminate() { p.child.Terminate() }

func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// status returns the exit status as text. It is valid once done is closed.
func (p *process) status() string {
	if p.err != nil {
		return p.err.Error()
	}
	return "exit status 0"
}

// pipes are the pipes of one process. They are closed together.
type pipes struct {
	parentEnd, childEnd []*os.File
	err                 error
}

func (p *pipes) toChild() (childEnd, parentEnd *os.File) {
	r, w := p.make()
	return p.add(r, w)
}

func (p *pipes) fromChild() (childEnd, parentEnd *os.File) {
	r, w := p.make()
	return p.add(w, r)
}

func (p *pipes) make() (r, w *os.File) {
	if p.err == nil {
		r, w, p.err = os.Pipe()
	}
	return r, w
}

func (p *pipes) add(childEnd, parentEnd *os.File) (*os.File, *os.File) {
	if p.err == nil {
		p.childEnd, p.parentEnd = append(p.childEnd, childEnd), append(p.parentEnd, parentEnd)
	}
	return childEnd, parentEnd
}

func (p *pipes) closeChild() {
	for _, f := range p.childEnd {
		f.Close()
	}
}

func (p *pipes) closeParent() {
	for _, f := range p.parentEnd {
		f.Close()
	}
}
