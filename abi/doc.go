// Package abi defines the contract between an agent's host and its middlewares: hook
// names, messages, patches, error codes and limits of ABI version 1. The README.md in
// this directory documents the same contract in prose.
//
// The package compiles for the host and for GOOS=wasip1, so that both sides share one
// definition of each type. Its types implement the interfaces of encoding/json. A host must
// decode what modules send more strictly: valid UTF-8, a depth limit, no duplicate keys, and
// keys spelled as documented.
package abi

// Version is the ABI version that this package describes.
const Version = 1

// ImportModule is the name of the WebAssembly module from which a guest imports its
// functions. Each ABI version has its own name.
const ImportModule = "agent_middleware_v1"
