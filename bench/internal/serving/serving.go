// Package serving starts servers as processes, with "agent-runner serve". It needs Linux.
package serving

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Options configure a server.
type Options struct {
	Program string   // path of the agent-runner command
	Dir     string   // directory of temporary files and of the cache
	Store   string   // path or URL of the database
	Model   string   // base URL of OpenAI's chat API
	Args    []string // more arguments
	Env     []string // more environment variables
	// Started, if not nil, is called with the process id before the server is ready.
	Started func(pid int) error
}

// A Server is a server on a free port of the loopback interface. It ends at the latest with this process.
type Server struct {
	URL string

	cmd   *exec.Cmd
	key   chan string
	ended chan struct{}
}

// Start starts a server and waits until it is ready, for at most a minute. The caller must end the server.
func Start(o *Options) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(o.Program)
	if err != nil {
		return nil, err
	}
	args := []string{
		"serve",
		"--listen",
		address,
		"--store",
		o.Store,
		"--cache-dir",
		filepath.Join(o.Dir, "cache"),
		"--log",
		"off",
	}
	s := &Server{URL: "http://" + address, cmd: exec.Command(program, append(args, o.Args...)...),
		key: make(chan string, 1), ended: make(chan struct{})}
	s.cmd.Dir = o.Dir
	s.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+o.Model, "OPENAI_API_KEY=none", "TMPDIR="+o.Dir)
	s.cmd.Env = append(s.cmd.Env, o.Env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	s.cmd.Stderr = &log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.wait(stdout)
	if o.Started != nil {
		err = o.Started(s.PID())
	}
	if err == nil {
		err = s.ready()
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("%s serve: %w\n%s", program, err, log.Bytes())
	}
	return s, nil
}

// freeAddress returns an address of the loopback interface at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// wait reads the operator's key, and waits until the process has ended.
func (s *Server) wait(stdout io.Reader) {
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	s.key <- strings.TrimSpace(line)
	_ = s.cmd.Wait()
	close(s.ended)
}

// ready waits until /readyz answers with status 200.
func (s *Server) ready() error {
	const timeout, interval = time.Minute, 50 * time.Millisecond
	client := http.Client{Timeout: timeout}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.cmd.ProcessState)
		case <-time.After(interval):
		}
		if res, err := client.Get(s.URL + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("the server is not ready after %v", timeout)
}

// PID returns the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// OperatorKey returns the key that the server prints if its database is new. It must be called at most
// once, and only for a server with a new database: it waits until the server prints a line or ends.
func (s *Server) OperatorKey() string { return <-s.key }

// Kill kills the server and waits until it has ended.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Terminate asks the server to end, and waits until it has ended. It kills the server after 40 s.
func (s *Server) Terminate() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(40 * time.Second):
		s.Kill()
	}
}
