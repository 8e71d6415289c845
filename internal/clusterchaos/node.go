package clusterchaos

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A node is a server of the cluster. It starts again after it was killed.
type node struct {
	host    *host
	program string // path of the agent-runner command
	dir     string // for its cache and its log
	store   string // location of the database
	model   string // URL of the operator's model
	flags   []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	key   string // the operator's key, if this node printed it
}

func (n *node) url() string { return "http://" + n.host.address + ":8080" }

// start starts the process and waits until it is ready.
func (n *node) start() error {
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"serve", "--listen", n.host.address + ":8080", "--store", n.store,
		"--cache-dir", filepath.Join(n.dir, "cache"), "--allow-private", "10.77.0.0/24", "--drain", "10s"}, n.flags...)
	cmd := n.host.command(n.program, args...)
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+n.model, "OPENAI_API_KEY=none", "TMPDIR="+n.dir,
		skewVariable+"="+filepath.Join(n.dir, "skew"))
	cmd.Stderr = log
	stdout, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	n.mu.Lock()
	n.cmd, n.ended = cmd, ended
	n.mu.Unlock()
	for range 600 {
		select {
		case <-ended:
			return fmt.Errorf("the server ended\n%s", n.log())
		case <-time.After(50 * time.Millisecond):
		}
		client := http.Client{Timeout: time.Second}
		if res, err := client.Get(n.url() + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
	}
	if n.key == "" {
		_ = stdout.SetReadDeadline(time.Now().Add(time.Second))
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		n.key = strings.TrimSpace(line)
	}
	return nil
}

// skew makes the process's clock fast by a number of seconds, or slow if it is negative.
func (n *node) skew(seconds int) error {
	return os.WriteFile(filepath.Join(n.dir, "skew"), []byte(strconv.Itoa(seconds)), 0o600)
}

// log returns the end of the log.
func (n *node) log() string {
	b, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	return string(b[max(0, len(b)-4<<10):])
}

// isEnded reports whether the process has ended.
func (n *node) isEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process.
func (n *node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process.Signal(s)
}

// kill kills the process.
func (n *node) kill() error {
	err := n.signal(syscall.SIGKILL)
	<-n.ended
	return err
}

// stop ends the process with SIGTERM, so that its runs end or are released to other nodes.
func (n *node) stop() error {
	if err := n.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.ended:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the server does not end a minute after SIGTERM")
	}
}
