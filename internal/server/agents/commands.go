package agents

import (
	"errors"
	"os"
	"strings"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/procgroup"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Commands starts the MCP servers that the operator listed when the server started.
type Commands interface {
	procgroup.Starter
	// Allows reports whether a command with exactly these arguments is listed.
	Allows(command []string) bool
}

// noCommands allows no commands.
type noCommands struct{}

// Allows implements [Commands].
func (noCommands) Allows([]string) bool { return false }

// Start implements [procgroup.Starter].
func (noCommands) Start([]string, *os.File, *os.File, *os.File) (procgroup.Child, error) {
	return nil, errNoPrograms
}

var errNoPrograms = errors.New("command: agents on this server cannot start programs; set the url of an MCP server")

// commandsOf returns the commands that a tenant's agents may name.
func (o *Options) commandsOf(tenant string) Commands {
	if tenant != store.Operator || o.Commands == nil {
		return noCommands{}
	}
	return o.Commands
}

// checkCommand rejects a command that is not listed. It also rejects an environment, which only
// the list may set.
func checkCommand(s *agentfile.MCPServer, allowed Commands) error {
	switch {
	case allowed == Commands(noCommands{}):
		return errNoPrograms
	case !allowed.Allows(s.Command):
		command := strings.Join(s.Command, " ")
		return errors.New("command: the server was not started with this command: list " + command +
			" in the file of --mcp-commands, with exactly these arguments")
	case len(s.Env) > 0:
		return errors.New("env: the server's --mcp-commands file sets the environment of commands; remove env")
	}
	return nil
}
