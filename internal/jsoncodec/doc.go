// Package jsoncodec reads and writes JSON strictly, for hosts and for modules. Texts and
// Go values come in; Go values, texts and errors with a path and a position go out.
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
// The package guarantees that no method panics, whatever the text. It imports the standard
// library and package word, never package abi, whose types it does not know. Package
// abijson has the codecs of those types.
package jsoncodec
