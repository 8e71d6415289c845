// Package jsoncodec converts between JSON text and Go values, for hosts and for modules. Its
// errors contain the path of the value and the position in the text, if these are known.
//
//   - A [Scanner] reads text of unknown origin. It requires valid UTF-8, a single value, a
//     limited depth and length of numbers, and unique keys.
//   - A [Parser] reads text that a host has written, with few checks.
//   - A [Reader] reads text incrementally, without reflection.
//   - A [Writer] writes JSON without escaping <, > and &.
//   - [AppendValue] and [Parser.Value] encode and decode any Go type by reflection, with
//     the tags and interfaces of encoding/json. Without encoding/json a module is a third
//     smaller.
//
// The package guarantees that no method panics, whatever the text. It imports only the
// standard library and package word. Package abijson has the codecs for the types of package
// abi.
package jsoncodec
