package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// logins holds the servers that the user is logged in to, with their keys. It is stored in a
// file that only the user can read.
type logins struct {
	Current string           `json:"current,omitempty"` // the address of the server that commands use
	Servers map[string]login `json:"servers"`           // by address

	path string
}

// A login holds the credentials for one server.
type login struct {
	Key string `json:"key"`
}

// maxLogins is the maximum size of the logins file, in bytes.
const maxLogins = 1 << 20

// loginsPath returns the path of the logins file. It is "" if neither $XDG_CONFIG_HOME
// nor $HOME is set.
func loginsPath(e *cli.Env) string {
	if dir := e.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agent-runner", "servers.json")
	}
	if home := e.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "agent-runner", "servers.json")
	}
	return ""
}

// ReadLogins reads the logins file. If there is no file, it returns no logins. If other users can
// access the file, it returns an error.
func ReadLogins(e *cli.Env) (*logins, error) {
	l := &logins{path: loginsPath(e), Servers: map[string]login{}}
	if l.path == "" {
		return l, nil
	}
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", l.path, cli.Bare(err))
	case info.Mode().Perm()&0o077 != 0:
		return nil, cli.Usagef("other users can read the keys in %[1]s; run: chmod 600 %[1]s", l.path)
	}
	b, err := cli.ReadFile(l.path, maxLogins)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, l); err != nil {
		return nil, cli.Usagef("read %s: %w; remove it, and log in again with: agent-runner login URL", l.path, err)
	}
	if l.Servers == nil {
		l.Servers = map[string]login{}
	}
	return l, nil
}

// save writes the logins file atomically.
func (l *logins) save() error {
	if l.path == "" {
		return cli.Usagef("no directory to store the key in: set $HOME, or set $%s for each command", EnvKey)
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(l.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store the key in %s: %w", dir, cli.Bare(err))
	}
	f, err := os.CreateTemp(dir, ".servers") // 0600
	if err != nil {
		return fmt.Errorf("store the key in %s: %w", dir, cli.Bare(err))
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return fmt.Errorf("store the key in %s: %w", l.path, cli.Bare(err))
	}
	return nil
}
