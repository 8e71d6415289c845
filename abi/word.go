//go:build !wasm

package abi

import "encoding/binary"

// word is eight bytes of b from i on, the first lowest. They must be there.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// byteOf is b[i].
func byteOf(b []byte, i int) byte { return b[i] }
