// Package api defines the JSON of the server's HTTP API: the bodies of requests and responses.
// The server describes the same types at /openapi.json; package client sends and receives them.
// Events of runs are the Event type of package abi.
//
// The struct tags beyond json are constraints and descriptions for that document. Times are
// UTC, days are UTC days as 2026-01-31, and sizes are in bytes unless a field says
// otherwise.
//
// The package depends on the standard library alone.
package api
