// Package server serves a platform over HTTP: tenants upload modules and run agents. The command
// "agent-runner serve" is a thin layer over it. /openapi.json describes the API; package client
// is a typed client.
package server

import (
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/signin"
)

type (
	// A Server is an [net/http.Handler]. Serve it with its method Serve, which also takes over runs,
	// deletes old runs, and waits for requests and runs when it stops.
	Server = server.Server
	// Options configure a server. Store and Host are required; the caller closes both after
	// the server.
	Options = server.Options
	// SignInOptions configure the identity provider with which people sign in.
	SignInOptions = signin.Options
)

// New returns a server with the given options. Store and Host are required.
func New(o *Options) (*Server, error) { return server.New(o) }
