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

	"github.com/agent-runner/agent-runner/internal/procgroup"
)

// Defaults of Options.
const (
	defaultTimeout        = 10 * time.Second
	defaultGrace          = time.Second
	defaultMaxMessage     = 16 << 20
	defaultMaxTools       = 512
	defaultMaxDeclaration = 64 << 10
)

// Options configure the connection to a server. Exactly one of Command and URL is required.
type Options struct {
	// Name is the server's name in errors. The default is the name of the command or of the host.
	Name string

	// Command is a program that serves MCP on stdin and stdout, and its arguments.
	Command []string
	// Dir is the working directory of the command. The default is the working directory of this
	// process.
	Dir string
	// Env is added to this process's environment, as NAME=value. The last value of a
	// duplicate name wins.
	Env []string
	// Starter, if not nil, starts Command in a directory and environment of its choice, and
	// ignores Dir and Env. By default, this process starts the command.
	Starter procgroup.Starter

	// URL is the URL of a server with the streamable HTTP transport.
	URL string
	// Headers are sent with each request to the URL's host, and to no other host.
	Headers map[string]string
	// Guard, if not nil, sends the requests to the URL and its redirects. It can reject
	// addresses, for example. The caller closes its connections. By default, any address is
	// allowed, and the environment's proxy is used.
	Guard http.RoundTripper

	// Timeout bounds connecting, and again listing tools. The default is 10 seconds.
	Timeout time.Duration
	// CallTimeout bounds each tool call. If it is 0, only the caller's context bounds calls.
	CallTimeout time.Duration
	// Grace is the time for which Close waits for the server to exit by itself, and again
	// after SIGTERM. The default is 1 second.
	Grace time.Duration

	// MaxMessage is the maximum size of a message from the server, in bytes. A larger result
	// becomes an error result. The default is 16 MiB.
	MaxMessage int
	// MaxTools is the maximum number of tools. The default is 512.
	MaxTools int
	// MaxDeclaration is the maximum total size of a tool's name, description and schema, in
	// bytes. The default is 64 KiB.
	MaxDeclaration int

	// Logger receives the server's stderr, and lines of its stdout that are not messages, at level
	// debug. It receives the names of omitted tools at level warn. It may be nil.
	Logger *slog.Logger
}

func isURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse contains the URL, which may contain a secret.
		return nil, errors.New("the address of an MCP server is no URL")
	}
	if !isURL(s) || u.Host == "" || strings.ContainsAny(s, " \t\r\n") {
		return nil, fmt.Errorf("the address of an MCP server must be http://host/path or https://host/path, got %q", bare(u))
	}
	return u, nil
}

// bare returns a URL without its possibly secret parts.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// complete returns the options with defaults, or an error if they are invalid.
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
	o.Timeout = or(o.Timeout, defaultTimeout)
	o.Grace = or(o.Grace, defaultGrace)
	o.MaxMessage = or(o.MaxMessage, defaultMaxMessage)
	o.MaxTools = or(o.MaxTools, defaultMaxTools)
	o.MaxDeclaration = or(o.MaxDeclaration, defaultMaxDeclaration)
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
