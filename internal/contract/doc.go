// Package contract defines the parts of the ABI that hosts and SDKs implement and authors of
// middlewares do not use: the lists of hooks, error codes and event types, limits, the input and
// answer of the hook configure, the arguments and replies of imports, log levels, and checks of the
// data that modules send. Package abi defines the rest.
//
// Like package abi, it compiles for the host and for GOOS=wasip1.
package contract

// ImportModule is the name of the WebAssembly module from which a guest imports its
// functions. Each ABI version has its own name.
const ImportModule = "agent_middleware_v1"
