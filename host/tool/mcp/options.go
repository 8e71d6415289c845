package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/shlex"
)

// Defaults of Options.
const (
	DefaultTimeout        = 10 * time.Second
	DefaultGrace          = time.Second
	DefaultMaxMessage     = 16 << 20
	DefaultMaxTools       = 512
	DefaultMaxDeclaration = 64 << 10
)

// Options say which server to connect to: one of Command and URL is needed.
type Options struct {
	// Name is what errors call the server. Empty: the command's or host's name.
	Name string

	// Command is a program and its arguments. It speaks MCP on stdin and stdout.
	Command []string
	// Dir is the directory that the command runs in. Empty: this process's.
	Dir string
	// Env is added to this process's environment, NAME=value each; a name that
	// stands twice has the last value.
	Env []string
	// Starter starts Command, with a directory and environment of the starter's
	// choice: Dir and Env are not used. Nil: this process starts it.
	Starter Starter

	// URL is the address of a server that speaks streamable HTTP.
	URL string
	// Headers go with each request to the URL's host, and to no other.
	Headers map[string]string
	// Guard sends the requests to the URL, and to where it redirects, in place of a
	// transport of the server's own: one that refuses addresses, say. Whoever made
	// it closes its connections. Nil: any address, through the environment's proxy.
	Guard http.RoundTripper

	// Timeout is for connecting, and again for listing tools; DefaultTimeout when 0.
	Timeout time.Duration
	// CallTimeout is for each call of a tool. 0: the caller's context alone decides.
	CallTimeout time.Duration
	// Grace is how long Close waits for the server to end by itself, and once
	// more after it was told to; DefaultGrace when 0.
	Grace time.Duration

	// MaxMessage is the size of a message from the server, in bytes. A larger
	// result is an error result; DefaultMaxMessage when 0.
	MaxMessage int
	// MaxTools is how many tools the server may have; DefaultMaxTools when 0.
	MaxTools int
	// MaxDeclaration is the size of a tool's name, description and schema
	// together, in bytes; DefaultMaxDeclaration when 0.
	MaxDeclaration int

	// Logger gets what the server prints to stderr, and whatever else it prints
	// that is no message, at level debug; and tools that were left out at level
	// warn. Nil: nothing is logged.
	Logger *slog.Logger
}

// ParseCommand splits a command as a shell would, quotes and backslashes
// included, without running one: there are no variables, pipes or wildcards.
func ParseCommand(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("MCP command %q: a quote or backslash is not closed", command)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("an MCP command is empty; give a program and its arguments, or an http:// or https:// address")
	}
	return words, nil
}

// ParseOptions reads what --mcp takes: an http:// or https:// address, or
// else a command.
func ParseOptions(text string) (*Options, error) {
	trimmed := strings.TrimSpace(text)
	if isURL(trimmed) {
		if _, err := parseURL(trimmed); err != nil {
			return nil, err
		}
		return &Options{URL: trimmed}, nil
	}
	words, err := ParseCommand(text)
	if err != nil {
		return nil, err
	}
	return &Options{Command: words}, nil
}

func isURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse repeats the address, which may hold a key.
		return nil, errors.New("the address of an MCP server is no URL")
	}
	if !isURL(s) || u.Host == "" || strings.ContainsAny(s, " \t\r\n") {
		return nil, fmt.Errorf("the address of an MCP server must be http://host/path or https://host/path, got %q", bare(u))
	}
	return u, nil
}

// bare is an address without what may be secret in it.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// complete returns the options with their defaults, or what is wrong.
func (o Options) complete() (Options, error) {
	switch {
	case len(o.Command) == 0 && o.URL == "":
		return o, errors.New("an MCP server needs a command or a URL")
	case len(o.Command) > 0 && o.URL != "":
		return o, errors.New("an MCP server has either a command or a URL, not both")
	case o.URL != "":
		u, err := parseURL(o.URL)
		if err != nil {
			return o, err
		}
		o.Name = or(o.Name, u.Host)
	default:
		o.Name = or(o.Name, strings.TrimSuffix(filepath.Base(o.Command[0]), ".exe"))
	}
	o.Timeout = or(o.Timeout, DefaultTimeout)
	o.Grace = or(o.Grace, DefaultGrace)
	o.MaxMessage = or(o.MaxMessage, DefaultMaxMessage)
	o.MaxTools = or(o.MaxTools, DefaultMaxTools)
	o.MaxDeclaration = or(o.MaxDeclaration, DefaultMaxDeclaration)
	o.Logger = or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
