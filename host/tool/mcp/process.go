package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A process is a server that runs as a child of this process.
//
// It is started in a process group of its own, so that Ctrl-C in a terminal
// does not end it before its calls are answered, and so that what it started
// ends with it. It is waited for from the start: it never stays a zombie.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	last   lastLines // of stderr, and of stdout what is no message
	log    func(line string)

	stopping sync.Once
	done     chan struct{} // closed when it has ended and stderr was read
	err      error         // how it ended; read after done
}

// drain is how long the output of a process is read that has ended, but left
// it to another that outlives it.
const drain = time.Second

// start starts the command of the options.
func start(o *Options) (*process, error) {
	path, err := find(o.Command[0], o.Dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, o.Command[1:]...)
	cmd.Args[0] = o.Command[0]
	cmd.Dir = o.Dir
	if len(o.Env) > 0 {
		cmd.Env = append(os.Environ(), o.Env...)
	}
	ownGroup(cmd)

	var pipes pipes
	defer pipes.closeTheirs()
	p := &process{cmd: cmd, done: make(chan struct{})}
	p.log = func(line string) { o.Logger.Debug("MCP server printed", "server", o.Name, "line", line) }
	var stderr *os.File
	cmd.Stdin, p.stdin = pipes.toChild()
	cmd.Stdout, p.stdout = pipes.fromChild()
	cmd.Stderr, stderr = pipes.fromChild()
	if pipes.err == nil {
		pipes.err = cmd.Start()
	}
	if pipes.err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("starting it: %w", pipes.err)
	}
	go p.wait(stderr)
	return p, nil
}

// find looks for a program as a shell does, and says where it looked.
func find(program, dir string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) && dir != "" {
		program = filepath.Join(dir, program)
	}
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("there is no program %q in PATH (%s); install it, or give its path", program, os.Getenv("PATH"))
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the program %q cannot be executed; is it a program, and executable?", program)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no program %q", program)
	default:
		return "", fmt.Errorf("looking for the program: %w", err)
	}
}

// wait reads stderr and waits for the end of the process, then ends what it
// left behind.
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
	p.err = p.cmd.Wait()
	// While anybody is left in the group, its number is given to nobody else.
	killGroup(p.cmd.Process.Pid)
	for _, out := range []*os.File{stderr, p.stdout} {
		if out.SetReadDeadline(time.Now().Add(drain)) != nil {
			out.Close()
		}
	}
	<-read
	stderr.Close()
	close(p.done)
}

// stop asks the process to end by closing its stdin, then by SIGTERM, then
// kills it. It returns when the process has ended.
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
		killGroup(p.cmd.Process.Pid)
		_ = p.cmd.Process.Kill() // where there are no groups
	})
	<-p.done
}

// terminate tells the process to end.
func (p *process) terminate() { terminateGroup(p.cmd.Process.Pid) }

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

// status says how the process ended. It is called after done.
func (p *process) status() string {
	if p.err != nil {
		return p.err.Error()
	}
	return "exit status 0"
}

// pipes are made together and closed together.
type pipes struct {
	ours, theirs []*os.File
	err          error
}

func (p *pipes) toChild() (theirs, ours *os.File) {
	r, w := p.make()
	return p.keep(r, w)
}

func (p *pipes) fromChild() (theirs, ours *os.File) {
	r, w := p.make()
	return p.keep(w, r)
}

func (p *pipes) make() (r, w *os.File) {
	if p.err == nil {
		r, w, p.err = os.Pipe()
	}
	return r, w
}

func (p *pipes) keep(theirs, ours *os.File) (*os.File, *os.File) {
	if p.err == nil {
		p.theirs, p.ours = append(p.theirs, theirs), append(p.ours, ours)
	}
	return theirs, ours
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
}

func (p *pipes) closeOurs() {
	for _, f := range p.ours {
		f.Close()
	}
}
