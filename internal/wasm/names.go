package wasm

import "iter"

// NameSection returns the content of the section "name", which has the names of functions. It
// returns nil if module has no such section. module need not be valid, and the result shares memory
// with it.
func NameSection(module []byte) []byte {
	d := reader{b: module, pos: min(8, len(module))}
	for d.err == nil && d.remaining() > 0 {
		id, section := d.sized("section")
		if id != sectionCustom {
			continue
		}
		r := reader{b: section}
		name := r.bytes(uint64(r.u32("the length of the section's name")), "the section's name")
		if r.err == nil && string(name) == "name" {
			return section[r.pos:]
		}
	}
	return nil
}

// functionNames is the id of the part of the section "name" that has the names of functions.
const functionNames = 1

// FunctionNames yields the index and the name of each function that the section "name" of module
// contains, in the order of the indices. It stops at the first malformed entry. A name can be any
// bytes, and shares memory with module.
func FunctionNames(module []byte) iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		d := reader{b: NameSection(module)}
		for d.err == nil && d.remaining() > 0 {
			if id, part := d.sized("part"); id == functionNames {
				yieldNames(reader{b: part}, yield)
				return
			}
		}
	}
}

// yieldNames yields the entries of a name map.
func yieldNames(r reader, yield func(uint32, []byte) bool) {
	last := int64(-1)
	for range r.u32("the number of names") {
		function := r.u32("the function")
		name := r.bytes(uint64(r.u32("the length of a name")), "a name")
		if r.err != nil || int64(function) <= last || !yield(function, name) {
			return
		}
		last = int64(function)
	}
}

// sized reads an ID, a length, and as many bytes as the length says. It returns the ID and those
// bytes.
func (r *reader) sized(what string) (id byte, content []byte) {
	id = r.u8(what)
	return id, r.bytes(uint64(r.u32("the size of a "+what)), "a "+what)
}
