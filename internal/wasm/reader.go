package wasm

import (
	"encoding/binary"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// reader reads the bytes of a module. It records the first error and then skips the remaining
// bytes, so that loops terminate and callers can check err when it matters.
type reader struct {
	b        []byte // the bytes to read, which end at the limit of this reader
	pos      int
	base     int // offset of b[0] in the module
	section  string
	function int
	err      *Error
}

func (r *reader) remaining() int { return len(r.b) - r.pos }

// failAt records an error at an offset in b.
func (r *reader) failAt(at int, kind Kind, what string, value, limit uint64, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{
			Kind: kind, Offset: r.base + at, Section: r.section, Function: r.function,
			Thing: what, Value: value, Limit: limit, text: fmt.Sprintf(format, args...),
		}
	}
	r.pos = len(r.b)
}

func (r *reader) truncated(what string, need uint64) {
	have := uint64(r.remaining())
	r.failAt(
		r.pos,
		Malformed,
		what,
		need,
		have,
		"%s needs %s more bytes, but only %s remain; the module is cut short or a size is wrong",
		what,
		grouped(need),
		grouped(have),
	)
}

func (r *reader) unsupported(at int, feature string) {
	r.failAt(
		at,
		Unsupported,
		feature,
		0,
		0,
		"the module uses %s, which is not supported; build it for WebAssembly 2.0 without that feature",
		feature,
	)
}

func (r *reader) overLimit(at int, what string, value uint64, limit int, per string) {
	r.failAt(
		at,
		OverLimit,
		what,
		value,
		uint64(limit),
		"%s %s, more than the limit of %s%s",
		grouped(value),
		what,
		grouped(uint64(limit)),
		per,
	)
}

// index checks that value, an index, is below n. at is the offset of the index.
func (r *reader) index(at int, what string, value uint32, n int) {
	if uint64(value) >= uint64(n) {
		r.failAt(
			at,
			Invalid,
			what,
			uint64(value),
			uint64(n),
			"%s %s does not exist, the module has %s",
			what,
			grouped(uint64(value)),
			grouped(uint64(n)),
		)
	}
}

func (r *reader) u8(what string) byte {
	if r.pos >= len(r.b) {
		r.truncated(what, 1)
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

func (r *reader) bytes(n uint64, what string) []byte {
	if n > uint64(r.remaining()) {
		r.truncated(what, n)
		return nil
	}
	s := r.b[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return s
}

// zero reads a byte that must be 0. Later proposals use it as the index of a memory.
func (r *reader) zero(what string) {
	at := r.pos
	if c := r.u8(what); c != 0 && r.err == nil {
		r.unsupported(at, "multiple memories")
	}
}

// u32 reads an unsigned LEB128 number of 32 bits.
func (r *reader) u32(what string) uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	return uint32(r.unsigned(32, what))
}

func (r *reader) unsigned(bits int, what string) uint64 {
	start := r.pos
	var v uint64
	for shift := 0; shift < bits; shift += 7 {
		if r.pos >= len(r.b) {
			r.truncated(what, 1)
			return 0
		}
		c := r.b[r.pos]
		r.pos++
		if left := bits - shift; left < 7 && c&0x7f>>left != 0 {
			r.failAt(start, Malformed, what, 0, 0, "%s does not fit in %d bits", what, bits)
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.overlong(start, bits, what)
	return 0
}

// signed reads a signed LEB128 number of 32, 33 or 64 bits.
func (r *reader) signed(bits int, what string) int64 {
	start := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		if r.pos >= len(r.b) {
			r.truncated(what, 1)
			return 0
		}
		c := r.b[r.pos]
		r.pos++
		v |= int64(c&0x7f) << shift
		if left := bits - shift; left < 7 {
			// The excess bits must repeat the sign.
			if ext := int8(c<<1) >> left; ext != 0 && ext != -1 {
				r.failAt(start, Malformed, what, 0, 0, "%s does not fit in %d bits", what, bits)
				return 0
			}
		}
		if c < 0x80 {
			if s := shift + 7; s < 64 {
				v = v << (64 - s) >> (64 - s)
			}
			return v
		}
	}
	r.overlong(start, bits, what)
	return 0
}

func (r *reader) overlong(start, bits int, what string) {
	limit := (bits + 6) / 7
	r.failAt(
		start,
		Malformed,
		what,
		uint64(r.pos-start),
		uint64(limit),
		"%s is encoded in more than the %d bytes that a number of %d bits may take",
		what,
		limit,
		bits,
	)
}

func (r *reader) f32(what string) uint64 {
	if s := r.bytes(4, what); s != nil {
		return uint64(binary.LittleEndian.Uint32(s))
	}
	return 0
}

func (r *reader) f64(what string) uint64 {
	if s := r.bytes(8, what); s != nil {
		return binary.LittleEndian.Uint64(s)
	}
	return 0
}

// count reads the length of a vector. It checks the limit, and that the remaining bytes
// can hold that many entries of at least size bytes, so that the caller may allocate
// them.
func (r *reader) count(what string, limit, size int) int {
	at := r.pos
	n := r.u32("the number of " + what)
	if uint64(n) > uint64(limit) {
		r.overLimit(at, what, uint64(n), limit, "")
		return 0
	}
	if need := uint64(n) * uint64(size); need > uint64(r.remaining()) {
		r.failAt(
			at,
			Malformed,
			what,
			uint64(n),
			uint64(r.remaining()/size),
			"%s %s are announced, but the %s bytes that are left cannot hold them",
			grouped(uint64(n)),
			what,
			grouped(uint64(r.remaining())),
		)
		return 0
	}
	return int(n)
}

// name reads the name of an import or export, of at most limit bytes. what describes the name in
// errors. Since names are printed in logs and terminals, name rejects control characters, which the
// format allows. It also rejects invisible characters that change how text is displayed: direction
// marks and line separators.
func (r *reader) name(what string, limit int) string {
	at := r.pos
	n := r.u32("the length of the " + what)
	if uint64(n) > uint64(limit) {
		r.overLimit(at, "bytes in the "+what, uint64(n), limit, "")
		return ""
	}
	s := string(r.bytes(uint64(n), what))
	if !utf8.ValidString(s) {
		r.failAt(at, Malformed, what, 0, 0, "the %s is not valid UTF-8: %q", what, s)
		return ""
	}
	for _, c := range s {
		if unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) {
			r.failAt(at, Invalid, what, uint64(c), 0, "the %s has a control character: %q", what, s)
			return ""
		}
	}
	return s
}

func (r *reader) valueType(what string) ValueType {
	at := r.pos
	c := r.u8(what)
	t := ValueType(c)
	if r.err == nil && !t.known() {
		if f := featureOfType(c); f != "" {
			r.unsupported(at, f)
		} else {
			r.failAt(at, Malformed, what, uint64(c), 0, "%s is %#x, which is no value type", what, c)
		}
	}
	return t
}

func (r *reader) refType(what string) ValueType {
	at := r.pos
	t := r.valueType(what)
	if r.err == nil && !t.IsReference() {
		r.failAt(at, Malformed, what, uint64(t), 0, "%s is %s, want a reference type", what, t)
	}
	return t
}
