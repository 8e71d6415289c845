package spawner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// errGone is the error of calls whose spawner has ended.
var errGone = errors.New("the spawner of commands has ended; restart the server")

// A Client starts commands through a spawner, a process of its own. It implements [procgroup.Starter].
type Client struct {
	commands []Command
	cmd      *exec.Cmd
	conn     *net.UnixConn
	read     chan struct{} // closed when readReplies has returned

	mu       sync.Mutex
	last     uint64 // ID of the process that was requested last
	children map[uint64]*child
	gone     bool
}

// A child is a process that the client has requested from the spawner.
type child struct {
	client  *Client
	id      uint64
	started chan error
	ended   chan struct{}
	err     error // how the process ended; set before ended is closed
}

// Start starts a spawner for a list of commands. It calls getenv for each variable of the server's environment that a
// command receives. It returns an error if the program of a command is not found, or if the spawner cannot be
// started. The caller must call Close.
func Start(list []Command, getenv func(string) string) (*Client, error) {
	o := order{}
	for i := range list {
		c := &list[i]
		path, err := procgroup.FindProgram(c.Args[0], c.Dir)
		if err != nil {
			return nil, err
		}
		o.Programs = append(
			o.Programs,
			program{
				Path:       path,
				Args:       c.Args,
				Dir:        c.Dir,
				Env:        c.environ(getenv),
				Read:       c.Read,
				Write:      c.Write,
				Connect:    c.Connect,
				Unconfined: c.Unconfined,
			},
		)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	childFiles := os.NewFile(uintptr(fds[1]), "spawner")
	defer childFiles.Close()
	conn, err := socket(uintptr(fds[0]))
	if err != nil {
		return nil, err
	}
	c := &Client{commands: list, conn: conn, read: make(chan struct{}), children: map[uint64]*child{}}
	if err := c.startSpawner(childFiles, &o); err != nil {
		conn.Close()
		return nil, fmt.Errorf("starting the spawner of commands: %w", err)
	}
	go c.readReplies()
	return c, nil
}

// startSpawner starts the spawner and sends it the order. The spawner's environment is empty,
// because that of the server contains the server's keys.
func (c *Client) startSpawner(socket *os.File, o *order) error {
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Args = []string{os.Args[0], spawnerArg}
	c.cmd.Env = []string{}
	c.cmd.Dir = "/"
	c.cmd.Stderr = os.Stderr
	c.cmd.ExtraFiles = []*os.File{socket}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	err = json.NewEncoder(stdin).Encode(o)
	if err = errors.Join(err, stdin.Close()); err != nil {
		_ = c.cmd.Process.Kill()
		return errors.Join(err, c.cmd.Wait())
	}
	return nil
}

// Allows reports whether a command with exactly these arguments is listed.
func (c *Client) Allows(command []string) bool { return Find(c.commands, command) >= 0 }

// Start implements [procgroup.Starter].
func (c *Client) Start(command []string, stdin, stdout, stderr *os.File) (procgroup.Child, error) {
	program := Find(c.commands, command)
	if program < 0 {
		return nil, errors.New(
			"the command is not in the list of --mcp-commands; its arguments must be exactly those of the list",
		)
	}
	p := &child{client: c, started: make(chan error, 1), ended: make(chan struct{})}
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return nil, errGone
	}
	c.last++
	p.id = c.last
	c.children[p.id] = p
	c.mu.Unlock()
	rights := syscall.UnixRights(int(stdin.Fd()), int(stdout.Fd()), int(stderr.Fd()))
	if err := c.send(request{Op: opStart, ID: p.id, Program: program}, rights); err != nil {
		c.mu.Lock()
		delete(c.children, p.id)
		c.mu.Unlock()
		return nil, err
	}
	if err := <-p.started; err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Client) send(r request, rights []byte) error {
	b, err := json.Marshal(r)
	if err == nil {
		_, _, err = c.conn.WriteMsgUnix(b, rights, nil)
	}
	return err
}

// readReplies delivers the spawner's replies until the spawner ends. It then marks all children as
// ended with errGone.
func (c *Client) readReplies() {
	defer close(c.read)
	packet := make([]byte, maxPacket)
	for {
		n, err := c.conn.Read(packet)
		var r reply
		if err != nil || n == 0 || json.Unmarshal(packet[:n], &r) != nil {
			break
		}
		c.deliver(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, p := range c.children {
		delete(c.children, id)
		p.err = errGone
		select {
		case p.started <- errGone:
		default:
		}
		close(p.ended)
	}
}

func (c *Client) deliver(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.children[r.ID]
	if p == nil {
		return
	}
	switch {
	case r.Started:
		p.started <- nil
		return
	case r.Error != "":
		p.err = errors.New(r.Error)
	}
	delete(c.children, r.ID)
	if !r.Ended {
		p.started <- p.err
	}
	close(p.ended)
}

// Close closes the connection for writing and waits for the spawner. The spawner then ends the commands that still
// run, and exits. Close returns an error if the spawner failed.
func (c *Client) Close() error {
	_ = c.conn.CloseWrite() // keep reading: the spawner still reports how its processes end
	<-c.read
	c.conn.Close()
	return c.cmd.Wait()
}

// Wait implements [procgroup.Child].
func (p *child) Wait() error {
	<-p.ended
	return p.err
}

// Terminate implements [procgroup.Child].
func (p *child) Terminate() { _ = p.client.send(request{Op: opTerminate, ID: p.id}, nil) }

// Kill implements [procgroup.Child].
func (p *child) Kill() { _ = p.client.send(request{Op: opKill, ID: p.id}, nil) }
