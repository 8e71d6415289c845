package run

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/shlex"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// parseMCP parses the value of --mcp: an http:// or https:// URL, or else a command. The error does
// not contain the URL, which may contain a key.
func parseMCP(text string) (*agentfile.MCPServer, error) {
	address := strings.TrimSpace(text)
	scheme, _, ok := strings.Cut(address, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		words, err := parseCommand(text)
		return &agentfile.MCPServer{Command: words}, err
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || strings.ContainsAny(address, " \t\r\n") {
		return nil, errors.New("the address of an MCP server must be http://host/path or https://host/path")
	}
	return &agentfile.MCPServer{URL: agentfile.URL(address)}, nil
}

// parseCommand splits a command into shell words, with quotes and backslashes, but without
// variables, pipes or wildcards. It does not run a shell.
func parseCommand(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("MCP command %q: a quote or backslash is not closed", command)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("an MCP command is empty; give a program and its arguments, or an http:// or https:// address")
	}
	return words, nil
}
