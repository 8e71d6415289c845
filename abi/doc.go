// Package abi defines the contract between an agent's host and its middlewares: hook
// names, messages, patches, error codes and limits of ABI version 1. The README.md in
// this directory documents the same contract in prose.
//
// The package depends on the standard library only and compiles for the host and for
// GOOS=wasip1, so that both sides share one definition of each type. It also contains the
// strict JSON decoder that both sides use at the boundary ([Decode]): input must be valid
// UTF-8, within a depth limit, without duplicate keys, and with keys spelled as
// documented.
package abi

// Version is the ABI version that this package describes.
const Version = 1

// ImportModule is the name of the WebAssembly module from which a guest imports its
// functions. Each ABI version has its own name.
const ImportModule = "agent_middleware_v1"
