// Package guestsdk has the sources of the SDKs that a module's folder holds a
// copy of, for "agent-runner module new".
package guestsdk

import "embed"

// Files are c/agent_middleware.h, the crate in rust, and the package in
// assemblyscript.
//
//go:embed c/agent_middleware.h rust/Cargo.toml rust/README.md rust/src assemblyscript/package.json assemblyscript/README.md assemblyscript/index.ts assemblyscript/assembly
var Files embed.FS
