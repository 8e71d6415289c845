// Package postgrestest runs a PostgreSQL server for tests in a temporary directory. It uses the
// programs of Debian's package postgresql.
package postgrestest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// EnvRequired is the environment variable that makes tests fail rather than skip if PostgreSQL is
// missing.
const EnvRequired = "AGENT_RUNNER_REQUIRE_POSTGRES"

// A Server is a PostgreSQL server.
type Server struct {
	bin, dir string
	port     int
	address  string               // address on which the server listens
	prefix   []string             // words before each command of PostgreSQL; see Move
	attr     *syscall.SysProcAttr // selects another user if the test runs as root, which initdb refuses
	uid, gid int                  // of that user; -1 if the test does not run as root
	settings []string             // see Configure
	cmd      *exec.Cmd
	exited   chan struct{}
}

// Start starts a server that stops when the test ends. If PostgreSQL is missing, it skips the test,
// or fails it if [EnvRequired] is set. With -short it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs PostgreSQL")
	}
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		t.Skip("SKIPPED, NOT TESTED: PostgreSQL is not installed; install it with: apt-get install postgresql")
	}
	t.Cleanup(s.Close)
	return s
}

// New starts a server. It returns nil if PostgreSQL is missing and not required.
func New() (*Server, error) {
	bin := programs()
	if bin == "" {
		if os.Getenv(EnvRequired) != "" {
			return nil, errors.New(EnvRequired + " is set, but PostgreSQL is not installed: apt-get install postgresql")
		}
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, address: "127.0.0.1", uid: -1, gid: -1}
	if err := s.init(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// programs returns the directory of the newest PostgreSQL's programs, or "" if there is none.
func programs() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

// version returns the version in the path of a program, or 0 if there is none.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// init creates the database files, chooses a free port and starts the server.
func (s *Server) init() error {
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("PostgreSQL does not run as root: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.attr, s.uid, s.gid = asUser(uint32(uid), uint32(gid)), uid, gid
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E",
		"UTF8", "--no-locale", "--no-sync").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.choosePort(); err != nil {
		return err
	}
	return s.Start()
}

// choosePort selects a port on which no server listens.
func (s *Server) choosePort() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command for one of PostgreSQL's programs, which runs with s.attr.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	words := slices.Concat(s.prefix, []string{filepath.Join(s.bin, program)}, args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = s.dir
	if s.prefix == nil {
		cmd.SysProcAttr = s.attr
	}
	return cmd
}

// Move starts the server again in a network namespace, at an address there. The test must run as
// root. All addresses can connect to it.
func (s *Server) Move(namespace, address string) error {
	s.Kill()
	rules, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = rules.WriteString("host all all 0.0.0.0/0 trust\n")
	if err := errors.Join(err, rules.Close()); err != nil {
		return err
	}
	s.address = address
	s.prefix = []string{"nsenter", "--net=/run/netns/" + namespace,
		"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
	return s.Start()
}

// Start starts the server again after [Server.Kill]. The server does not wait for the disk: what it
// has written survives its process, but not a failure of the machine.
func (s *Server) Start() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range append([]string{"listen_addresses=" + s.address, "unix_socket_directories=" + s.dir,
		"shared_buffers=16MB", "max_connections=100", "fsync=off", "full_page_writes=off", "autovacuum=off",
		"wal_level=minimal", "max_wal_senders=0"}, s.settings...) {
		args = append(args, "-c", setting)
	}
	s.cmd = s.command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(exited) }(s.cmd)
	for range 600 {
		if s.command("pg_isready", "-q", "-h", s.address, "-p", strconv.Itoa(s.port)).Run() == nil {
			return nil
		}
		select {
		case <-exited:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("PostgreSQL does not start:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("PostgreSQL does not answer")
}

// Kill ends the server immediately and without a checkpoint, so that its next start recovers.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.exited
	s.cmd = nil
}

// Close stops the server and removes its files.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s:%d/%s?sslmode=disable", s.address, s.port, database)
}

// Create creates an empty database and returns its address.
func (s *Server) Create(t testing.TB, database string) string {
	t.Helper()
	return s.CreateFrom(t, "template1", database)
}

// CreateFrom creates a database that is a copy of another, and returns its address. It fails the test if
// the other database still has connections after five seconds.
func (s *Server) CreateFrom(t testing.TB, other, database string) string {
	t.Helper()
	args := []string{"-h", s.address, "-p", strconv.Itoa(s.port), "-U", "postgres", "-T", other}
	if version(filepath.Join(s.bin, "createdb")) >= 15 {
		args = append(args, "--strategy=file_copy") // takes half the time; older versions have no other strategy
	}
	out, err := s.command("createdb", append(args, database)...).CombinedOutput()
	if err != nil {
		t.Fatalf("createdb %s: %v\n%s", database, err, strings.TrimSpace(string(out)))
	}
	return s.URL(database)
}
