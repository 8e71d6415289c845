// Package contract holds the parts of the ABI that hosts and SDKs implement and authors of
// middlewares do not use: the lists of hooks, limits, the arguments and replies of
// imports, and the checks of what modules send. Package abi holds the rest.
//
// Like package abi, it compiles for the host and for GOOS=wasip1.
package contract

// ImportModule is the name of the WebAssembly module from which a guest imports its
// functions. Each ABI version has its own name.
const ImportModule = "agent_middleware_v1"
