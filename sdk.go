// Package agentrunner embeds the sources of the SDKs, which "agent-runner module new" copies into
// the folders of new modules.
package agentrunner

import "embed"

// SDKs holds the sources of the SDKs under their paths in this folder. Those of Go are the packages
// in guest-sdk/go and what they import.
//
//go:embed LICENSE
//go:embed guest-sdk/go/README.md guest-sdk/go/json/*.go guest-sdk/go/middleware guest-sdk/go/internal/clone guest-sdk/go/internal/schema
//go:embed abi/*.go internal/abijson/*.go internal/chunkjoin/*.go internal/contract/*.go internal/jsoncodec/*.go internal/word/*.go
//go:embed guest-sdk/typescript/package.json guest-sdk/typescript/README.md guest-sdk/typescript/*.js guest-sdk/typescript/*.d.ts
//go:embed guest-sdk/rust/Cargo.toml guest-sdk/rust/README.md guest-sdk/rust/src
//go:embed guest-sdk/c/agent_middleware.h
//go:embed guest-sdk/assemblyscript/package.json guest-sdk/assemblyscript/README.md guest-sdk/assemblyscript/index.ts guest-sdk/assemblyscript/assembly
var SDKs embed.FS
