package hostile

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Section numbers of the binary format.
const (
	custom = iota
	types
	imports
	functions
	tables
	memories
	globals
	exports
	start
	elements
	codes
	datas
	dataCount
)

// Kinds of imports and exports.
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
)

// Value types, and the type of a block without values.
const (
	typeI32     = 0x7f
	typeI64     = 0x7e
	typeFuncRef = 0x70
	noValue     = 0x40
)

// limit is 2^32-1, the largest count that a module can declare.
var limit = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

// binaryOf returns a module with these sections, which may be invalid.
func binaryOf(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

// section encodes a section with its number and size.
func section(id byte, contents ...[]byte) []byte {
	all := bytes.Join(contents, nil)
	return slices.Concat([]byte{id}, leb(len(all)), all)
}

// vec encodes a vector of encoded items.
func vec(items ...[]byte) []byte { return append(leb(len(items)), bytes.Join(items, nil)...) }

// times encodes a vector of n copies of an item.
func times(n int, item ...byte) []byte { return append(leb(n), bytes.Repeat(item, n)...) }

func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// signed encodes a signed number as LEB128.
func signed(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func str(s string) []byte { return append(leb(len(s)), s...) }

// function encodes a body with its size and end. locals are already encoded.
func function(locals []byte, code ...byte) []byte {
	all := slices.Concat(locals, code, []byte{0x0b})
	return append(leb(len(all)), all...)
}

// custom1 encodes a custom section called name.
func custom1(name string, contents []byte) []byte { return section(custom, str(name), contents) }

// Parts of function bodies:

func i32(n int) []byte   { return append([]byte{0x41}, signed(int64(int32(n)))...) }
func i64(n int64) []byte { return append([]byte{0x42}, signed(n)...) }

func local(n int) []byte                { return append([]byte{0x20}, leb(n)...) }
func setLocal(n int) []byte             { return append([]byte{0x21}, leb(n)...) }
func teeLocal(n int) []byte             { return append([]byte{0x22}, leb(n)...) }
func global(n int) []byte               { return append([]byte{0x23}, leb(n)...) }
func setGlobal(n int) []byte            { return append([]byte{0x24}, leb(n)...) }
func branch(n int) []byte               { return append([]byte{0x0c}, leb(n)...) }
func branchIf(n int) []byte             { return append([]byte{0x0d}, leb(n)...) }
func call(f int) []byte                 { return append([]byte{0x10}, leb(f)...) }
func load8(at int) []byte               { return append([]byte{0x2d, 0}, leb(at)...) }
func load32(at int) []byte              { return append([]byte{0x28, 2}, leb(at)...) }
func store8(at int) []byte              { return append([]byte{0x3a, 0}, leb(at)...) }
func store32(at int) []byte             { return append([]byte{0x36, 2}, leb(at)...) }
func repeat(n int, code ...byte) []byte { return bytes.Repeat(code, n) }

var (
	drop        = []byte{0x1a}
	unreachable = []byte{0x00}
	leave       = []byte{0x0f} // return
	add         = []byte{0x6a}
	less        = []byte{0x48} // signed, 32 bits
	equal       = []byte{0x46}
	and         = []byte{0x71}
	growMemory  = []byte{0x40, 0}
	fill        = []byte{0xfc, 0x0b, 0}
	copyMemory  = []byte{0xfc, 0x0a, 0, 0}
	initMemory  = []byte{0xfc, 0x08, 0, 0}
	fillTable   = []byte{0xfc, 0x11, 0}
	copyTable   = []byte{0xfc, 0x0e, 0, 0}
	growTable   = []byte{0xfc, 0x0f, 0}
	nullFunc    = []byte{0xd0, typeFuncRef}
)

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// loop encodes a loop. A branch to it repeats its parts.
func loop(parts ...[]byte) []byte { return wrapped(0x03, parts) }

// block encodes a block. A branch to it leaves the block.
func block(parts ...[]byte) []byte { return wrapped(0x02, parts) }

// when encodes an if that executes its parts if the operand is not 0.
func when(parts ...[]byte) []byte { return wrapped(0x04, parts) }

func wrapped(op byte, parts [][]byte) []byte {
	return slices.Concat([]byte{op, noValue}, join(parts...), []byte{0x0b})
}

// forever encodes an endless loop of its parts.
func forever(parts ...[]byte) []byte { return loop(join(parts...), branch(0)) }

// count encodes a loop that executes its parts n times. The local counter must be 0 before the
// loop.
func count(counter, n int, parts ...[]byte) []byte {
	return loop(join(parts...), local(counter), i32(1), add, teeLocal(counter), i32(n), less, branchIf(0))
}
