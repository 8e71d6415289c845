// Package abi defines the contract between an agent's host and its middlewares: the inputs and
// answers of hooks, messages, patches, events and error codes of ABI version 1. The README.md in
// this directory documents the whole contract in prose.
//
// The package compiles for the host and for GOOS=wasip1, so that both sides share one definition of
// each type. Its types implement the interfaces of encoding/json. A host must decode what modules
// send more strictly than encoding/json does: it requires valid UTF-8, limits the depth, and
// rejects duplicate keys and keys that are not spelled as documented.
package abi
