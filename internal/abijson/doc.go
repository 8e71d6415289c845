// Package abijson encodes and decodes the types of packages abi and contract as JSON. Most of
// its code is generated from those types by internal/jsongen.
//
//   - A host calls [Marshal], [AppendJSON] and [Decode]. Decode is strict: its input comes
//     from modules.
//   - A module calls [Read] and [Write] with the types of this package, such as
//     (*Message)(m) for an *abi.Message. Read trusts the host, and has few checks.
//   - Both call [ReadValue], [AppendValue] and [DecodeValue] for values of types that module
//     authors define.
//
// The encoding is that of encoding/json, without escaping <, > and &. No function panics,
// whatever its input. The package imports abi, contract, jsoncodec and word, and nothing of the
// host.
package abijson

//go:generate go run ../jsongen ../../abi ../contract .
