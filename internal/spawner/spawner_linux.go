package spawner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// Values of os.Args[1] of a spawner and of a process that becomes a
// command.
const (
	spawnerArg = "mcp-spawner"
	commandArg = "mcp-command"
)

// The exit codes of a spawner and of a process that cannot become its command.
const (
	exitFailed     = 1
	exitNotStarted = 127 // a shell's exit status for a missing command
)

// socketFD is the file descriptor of the spawner's end of the socket to the server.
const socketFD = 3

// orphanGrace is the time that processes have to end once the server is gone, and again after
// SIGTERM. Their standard input ended with the server.
const orphanGrace = 2 * time.Second

// IsChild reports whether this process was started to be a spawner or to become a command.
// If so, its main function calls [Main] before anything else.
func IsChild() bool {
	return len(os.Args) > 1 &&
		(os.Args[1] == spawnerArg && len(os.Args) == 2 || os.Args[1] == commandArg && len(os.Args) == 3)
}

// Main runs a process for which IsChild is true, and returns its exit code.
func Main() int {
	if os.Args[1] == commandArg {
		fmt.Fprintf(os.Stderr, "agent-runner: %v\n", become(os.Args[2]))
		return exitNotStarted
	}
	if err := serve(); err != nil {
		fmt.Fprintf(os.Stderr, "agent-runner: the spawner of commands failed: %v\n", err)
		return exitFailed
	}
	return 0
}

// become confines this process and replaces it with a command, which text contains as JSON. It
// returns only if that fails.
func become(text string) error {
	var p program
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	if err := p.confine(); err != nil {
		return fmt.Errorf("confining %s: %w", p.Path, err)
	}
	return fmt.Errorf("starting %s: %w", p.Path, syscall.Exec(p.Path, p.Args, os.Environ()))
}

// A spawner starts processes for the server at the other end of its socket.
type spawner struct {
	programs []program
	conn     *net.UnixConn

	mu        sync.Mutex
	processes map[uint64]*procgroup.Group
	ended     sync.WaitGroup
}

// serve is the main function of a spawner. It returns when the server has closed the
// socket and all processes have ended.
func serve() error {
	// Drop the signals that terminals and service managers send to all processes: the spawner runs
	// until the server closes the socket. They are caught, not ignored, because commands would
	// inherit ignored signals, and exec resets caught ones to their default action.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return fmt.Errorf("%s is started by serve, not by users: %w", spawnerArg, err)
	}
	conn, err := socket(socketFD)
	if err != nil {
		return err
	}
	s := &spawner{programs: o.Programs, conn: conn, processes: map[uint64]*procgroup.Group{}}
	for {
		r, files, err := s.receive()
		if err != nil {
			break // the server has closed the socket or has ended
		}
		s.handle(r, files)
	}
	s.endAll()
	return nil
}

// socket returns a connection over the Unix socket with the descriptor fd, and closes fd.
func socket(fd uintptr) (*net.UnixConn, error) {
	syscall.CloseOnExec(int(fd))
	f := os.NewFile(fd, "spawner")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("its descriptor is not a unix socket")
	}
	return unix, nil
}

// receive reads a request and the files that come with it, which the caller must close. A malformed
// request has an empty Op. The error is not nil once the server has closed the socket.
func (s *spawner) receive() (r request, files []*os.File, err error) {
	packet, control := make([]byte, maxPacket), make([]byte, syscall.CmsgSpace(4*streams))
	n, m, flags, _, err := s.conn.ReadMsgUnix(packet, control)
	if err != nil || n == 0 {
		return request{}, nil, errors.Join(err, net.ErrClosed)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:m])
	if err != nil {
		return request{}, nil, nil
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 || json.Unmarshal(packet[:n], &r) != nil {
		return request{}, files, nil
	}
	return r, files, nil
}

// handle executes a request and closes its files. It ignores unknown operations and operations on
// unknown processes.
func (s *spawner) handle(r request, files []*os.File) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	s.mu.Lock()
	g := s.processes[r.ID]
	s.mu.Unlock()
	switch {
	case r.Op == opStart:
		if err := s.start(r, files); err != nil {
			s.send(reply{ID: r.ID, Error: err.Error()})
		}
	case g != nil && r.Op == opTerminate:
		g.Terminate()
	case g != nil && r.Op == opKill:
		g.Kill()
	}
}

// start starts a program. It sends one reply at once, and another when the program has ended. If it
// returns an error, it has sent no reply.
func (s *spawner) start(r request, files []*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(files) != streams:
		return fmt.Errorf("want %d descriptors, got %d", streams, len(files))
	case r.Program < 0 || r.Program >= len(s.programs):
		return errors.New("there is no such command")
	case s.processes[r.ID] != nil:
		return errors.New("the process number is in use")
	case len(s.processes) >= maxProcesses:
		return fmt.Errorf("%d commands run already, which is the limit", maxProcesses)
	}
	p := s.programs[r.Program]
	text, err := json.Marshal(
		program{Path: p.Path, Args: p.Args, Read: p.Read, Write: p.Write, Connect: p.Connect, Unconfined: p.Unconfined},
	)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], commandArg, string(text)}
	cmd.Dir, cmd.Env = p.Dir, p.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	g, err := procgroup.Start(cmd)
	if err != nil {
		return err
	}
	s.processes[r.ID] = g
	s.send(reply{ID: r.ID, Started: true, PID: g.PID()})
	s.ended.Go(func() {
		last := reply{ID: r.ID, Ended: true}
		if err := g.Wait(); err != nil {
			last.Error = err.Error()
		}
		s.mu.Lock()
		delete(s.processes, r.ID)
		s.mu.Unlock()
		s.send(last)
	})
	return nil
}

// send sends a reply. If it cannot be sent the server is gone, which receive notices.
func (s *spawner) send(r reply) {
	b, err := json.Marshal(r)
	if err == nil {
		_, _ = s.conn.Write(b)
	}
}

// endAll ends the processes that still run. They have orphanGrace to end by themselves, because
// their standard input ended with the server. Then endAll sends SIGTERM, and after another
// orphanGrace SIGKILL.
func (s *spawner) endAll() {
	ended := make(chan struct{})
	go func() { s.ended.Wait(); close(ended) }()
	for _, end := range []func(*procgroup.Group){(*procgroup.Group).Terminate, (*procgroup.Group).Kill} {
		select {
		case <-ended:
			return
		case <-time.After(orphanGrace):
		}
		s.mu.Lock()
		for _, g := range s.processes {
			end(g)
		}
		s.mu.Unlock()
	}
	<-ended
}
