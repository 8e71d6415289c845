package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Configure restarts the server with settings such as "wal_level=replica", which replace earlier ones
// of the same name.
func (s *Server) Configure(settings ...string) error {
	s.Kill()
	s.settings = append(s.settings, settings...)
	return s.Start()
}

// Folder creates a folder of the server's user, such as one for archived WAL, and returns its path.
func (s *Server) Folder(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	return dir, errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, s.uid, s.gid))
}

// Copy takes a base backup of the running server with pg_basebackup, and returns a stopped server with
// the copy of its files. The copy has a port of its own and the same settings. wal_level must be at
// least replica, and max_wal_senders at least 2. The caller must call Close.
func (s *Server) Copy() (*Server, error) {
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		return nil, err
	}
	c := *s
	c.dir, c.cmd, c.exited = dir, nil, nil
	if err := errors.Join(os.Chown(dir, s.uid, s.gid), c.choosePort()); err != nil {
		c.Close()
		return nil, err
	}
	out, err := s.command("pg_basebackup", "-D", c.data(), "-h", s.address, "-p", strconv.Itoa(s.port),
		"-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return &c, nil
}

// Signal creates a file such as recovery.signal or standby.signal among the files of a stopped server,
// which selects how it starts.
func (s *Server) Signal(name string) error {
	path := filepath.Join(s.data(), name)
	return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, s.uid, s.gid))
}

// Upstream returns the setting with which a server replicates s. name is the name of the standby in
// synchronous_standby_names.
func (s *Server) Upstream(name string) string {
	return fmt.Sprintf("primary_conninfo=host=%s port=%d user=postgres application_name=%s", s.address, s.port, name)
}

// Promote makes a standby the primary, and returns when it accepts writes.
func (s *Server) Promote() error {
	out, err := s.command("pg_ctl", "promote", "-D", s.data(), "-w", "-t", "60").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl promote: %w\n%s", err, out)
	}
	return nil
}

// KillHard ends the server with SIGKILL, as when its machine fails: none of its processes can finish
// what they do. Start starts it again.
func (s *Server) KillHard() error {
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.exited
	s.cmd = nil
	// The server's other processes end once they notice that their parent has ended.
	for range 600 {
		if s.command("pg_isready", "-q", "-h", s.address, "-p", strconv.Itoa(s.port)).Run() != nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("PostgreSQL still answers")
}

// Query returns what psql prints for a statement: a line for each row, with | between columns.
func (s *Server) Query(database, statement string) (string, error) {
	out, err := s.command("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", s.URL(database), "-c", statement).
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w\n%s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Host returns the server's address with its port.
func (s *Server) Host() string { return fmt.Sprintf("%s:%d", s.address, s.port) }
