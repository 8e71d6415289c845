// Package spawner starts the commands that an operator listed, for a server that is confined and cannot start
// programs itself.
//
// The spawner is a second process of the same program. The server starts it before it confines itself, and passes it
// the list of commands. From then on a request is a number in that list and three pipes. An attacker who controls the
// server can start the listed commands, with the arguments, environment and directory of the list, and pass them any
// input. The attacker cannot start other commands.
//
// Each command runs under a profile of its own: the paths that it may read and write, and
// the TCP ports that it may connect to. The spawner starts its own program once more,
// which confines itself and then becomes the command.
package spawner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/google/shlex"
)

// A Command is a program that the spawner may start.
type Command struct {
	// Args are the program and its arguments. An agent must request the command by exactly these
	// arguments.
	Args Args `yaml:"command"`
	// Dir is the directory that the command runs in. The default is the directory of the list.
	Dir string `yaml:"dir,omitempty"`
	// Env is added to the environment, which otherwise has only the variables of [baseEnv] and
	// PassEnv.
	Env map[string]string `yaml:"env,omitempty"`
	// PassEnv names variables of the server's environment that the command gets.
	PassEnv []string `yaml:"pass_env,omitempty"`
	// Read lists the files and directories that the command may read and execute in addition to
	// those of the system. Write lists those that it may read and write. A directory includes
	// everything below it. Relative paths start at the directory of the list.
	Read  []string `yaml:"read,omitempty"`
	Write []string `yaml:"write,omitempty"`
	// Connect lists the TCP ports that the command may connect to. If nil, all are allowed.
	Connect []uint16 `yaml:"connect,omitempty"`
	// Unconfined gives the command all permissions of the operator's user, for example for commands
	// that start containers or browsers.
	Unconfined bool `yaml:"unconfined,omitempty"`
}

// Args are a program and its arguments: in YAML a list, or a string that is split as a shell splits
// it.
type Args []string

// UnmarshalYAML implements [yaml.InterfaceUnmarshaler].
func (a *Args) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if unmarshal(&text) != nil {
		return unmarshal((*[]string)(a))
	}
	words, err := shlex.Split(text)
	if err != nil {
		return fmt.Errorf("command %q: a quote or backslash is not closed", text)
	}
	*a = words
	return nil
}

// baseEnv names the variables that each command gets from the server's environment. Keys
// are not among them.
var baseEnv = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// maxCommands and maxListSize bound a list of commands.
const (
	maxCommands = 256
	maxListSize = 1 << 20
)

// ReadCommands reads a YAML file with the list "commands", which must have 1 to 256 elements. It makes their paths
// absolute. It returns an error if the file has more than 1 MiB, an unknown field, an invalid command or the same
// command twice.
func ReadCommands(path string) ([]Command, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxListSize {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), maxListSize)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Commands []Command `yaml:"commands"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch n := len(list.Commands); {
	case n == 0:
		return nil, fmt.Errorf("%s lists no commands; want commands: [{command: [PROGRAM, ARGUMENT]}]", path)
	case n > maxCommands:
		return nil, fmt.Errorf("%s lists %d commands; at most %d are allowed", path, n, maxCommands)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for i := range list.Commands {
		c := &list.Commands[i]
		if err := c.complete(base); err != nil {
			return nil, fmt.Errorf("%s: commands[%d]: %w", path, i, err)
		}
		if Find(list.Commands[:i], c.Args) >= 0 {
			return nil, fmt.Errorf("%s: commands[%d]: %q is listed twice", path, i, strings.Join(c.Args, " "))
		}
	}
	return list.Commands, nil
}

// complete checks a command and makes its paths absolute.
func (c *Command) complete(base string) error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("command: want a program, and its arguments")
	}
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
		return filepath.Join(base, path)
	}
	if c.Unconfined && (c.Read != nil || c.Write != nil || c.Connect != nil) {
		return errors.New("unconfined: read, write and connect have no effect with it; remove them")
	}
	c.Dir = absolute(c.Dir)
	for _, list := range [][]string{c.Read, c.Write} {
		for i, path := range list {
			if path == "" {
				return errors.New("read, write: a path is empty")
			}
			list[i] = absolute(path)
			if _, err := os.Stat(list[i]); err != nil {
				return fmt.Errorf("read, write: %w", err)
			}
		}
	}
	return nil
}

// Find returns the index of the command with exactly these arguments, or -1.
func Find(list []Command, args []string) int {
	return slices.IndexFunc(list, func(c Command) bool { return slices.Equal(c.Args, args) })
}

// environ returns the environment of a command. getenv reads that of the server.
func (c *Command) environ(getenv func(string) string) []string {
	var env []string
	for _, name := range slices.Concat(baseEnv, c.PassEnv) {
		if value := getenv(name); value != "" &&
			!slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	return env
}
