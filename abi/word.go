//go:build !wasm

package abi

import "encoding/binary"

// word is eight bytes of b from i on, the first lowest. They must be there.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// byteOf is b[i].
func byteOf(b []byte, i int) byte { return b[i] }

// words are sixteen bytes of b from i on. They must be there.
func words(b []byte, i int) (first, second uint64) { return word(b, i), word(b, i+8) }
