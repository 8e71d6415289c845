// Package guestsdk has the sources of the SDKs that a module's folder holds a
// copy of, for "agent-runner module new".
package guestsdk

import "embed"

// Files are c/agent_middleware.h, and the crate in rust.
//
//go:embed c/agent_middleware.h rust/Cargo.toml rust/README.md rust/src
var Files embed.FS
