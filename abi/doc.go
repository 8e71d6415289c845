// Package abi is the contract between an agent's host and its middlewares:
// hook names, messages, patches, error codes and limits of ABI version 1.
// README.md beside this file is the same contract for readers.
//
// The package depends on the standard library only and compiles for the host
// and for GOOS=wasip1, so that both sides share one definition of each shape.
// It also holds the strict JSON reader that both use at the border ([Decode]):
// what crosses it is UTF-8, within a depth limit, without duplicate keys, and
// with keys spelled as they are documented.
package abi

// Version is the version of the ABI that this package describes.
const Version = 1

// ImportModule is the name of the WebAssembly module that a guest's imports
// come from. Another version of the ABI is another name.
const ImportModule = "agent_middleware_v1"
