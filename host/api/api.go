// Package api defines the JSON of the server's HTTP API: the bodies of requests and responses.
// The server describes the same types at /openapi.json; package client sends and receives them.
// Events of runs are the Event type of package abi.
//
// The struct tags beyond json are constraints and descriptions for that document. Times are
// in UTC. Days are days of UTC in the form 2026-01-31. Sizes are in bytes unless a field says
// otherwise.
//
// The package depends on the standard library alone.
package api
