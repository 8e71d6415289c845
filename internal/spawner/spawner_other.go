//go:build !linux

package spawner

import (
	"errors"
	"os"

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// IsChild reports false: this system has no spawners.
func IsChild() bool { return false }

// Main is never called on this system.
func Main() int { return 1 }

// A Client starts no commands on this system.
type Client struct{}

// Start fails on this system.
func Start([]Command, func(string) string) (*Client, error) {
	return nil, errors.New("commands are started on Linux only; give agents the url of an MCP server")
}

// Allows reports false.
func (c *Client) Allows([]string) bool { return false }

// Start implements [procgroup.Starter].
func (c *Client) Start([]string, *os.File, *os.File, *os.File) (procgroup.Child, error) {
	return nil, errors.New("commands are started on Linux only")
}

// Close does nothing.
func (c *Client) Close() error { return nil }
