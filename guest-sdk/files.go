// Package guestsdk embeds the sources of the SDKs that "agent-runner module new" copies into a
// module's folder.
package guestsdk

import "embed"

// Files holds the C header, the Rust crate and the AssemblyScript package, under their paths in
// this folder.
//
//go:embed c/agent_middleware.h rust/Cargo.toml rust/README.md rust/src assemblyscript/package.json assemblyscript/README.md assemblyscript/index.ts assemblyscript/assembly
var Files embed.FS
