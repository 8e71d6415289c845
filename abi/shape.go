package abi

import (
	"math/bits"
	"unsafe"
)

// An objectShape says how a trusted reads an object into a struct. Tables do what
// generated code did, in one function that calls no others for what is most of an
// object: in a module, where a call costs as much as reading ten bytes, that takes a
// third of the time, and less room.
type objectShape struct {
	fields []shapeField
	keep   func(p unsafe.Pointer, name string, raw []byte) // nil: unknown fields are passed over
}

// A shapeField is one of the fields, in the order in which they are written.
type shapeField struct {
	name        string
	first, mask uint64 // the first eight bytes of the key, with the quote and the colon behind it
	middle      uint64 // of a key longer than 14 bytes the second eight
	last        uint64 // of a key longer than 6 bytes the last six, the quote and the colon
	at          uintptr
	skip        uint8 // how many bytes there are from the comma before the key to the value
	kind        shapeKind
	of          *objectShape // of what it consists of; nil for a pointer to the same
	grow        func(p unsafe.Pointer) unsafe.Pointer
	other       func(t *trusted, p unsafe.Pointer)
}

const fieldSize = int(unsafe.Sizeof(shapeField{}))

type shapeKind uint8

const (
	shapeText shapeKind = iota
	shapeInt
	shapeInt64
	shapeBool
	shapeRaw
	shapeContent
	shapeStruct
	shapePointer // to a struct, which grow makes
	shapeList    // of structs, to which grow adds one
	shapeOther
)

// grown makes *p new.
func grown[T any](p **T) unsafe.Pointer {
	*p = new(T)
	return unsafe.Pointer(*p)
}

// extended adds an element to a list.
func extended[T any](v *[]T) unsafe.Pointer {
	list := *v
	n := len(list)
	if n == cap(list) {
		list = append(make([]T, 0, max(1, min(4*n, n+64))), list...)
	}
	*v = list[:n+1]
	return unsafe.Pointer(&(*v)[n])
}

// Two bytes before the key of a field, as they come from the host.
const (
	firstKey = '{' | '"'<<8
	nextKey  = ',' | '"'<<8
)

// unusual stands for a key that is not written as usual, or is none of the shape's.
var unusual shapeField

// object reads an object, or null, into the struct at p.
func (t *trusted) object(s *objectShape, p unsafe.Pointer) {
	switch t.space() {
	case '{':
	case 'n':
		t.null()
		return
	default:
		t.fail()
		return
	}
	if n := len(t.b); cap(t.b)-n < Pad {
		t.b = append(make([]byte, 0, n+Pad), t.b...)
	}
	for next := 0; ; {
		f, after := t.simple(s, next, p)
		if f == nil {
			return
		}
		if next = after; f == &unusual {
			if !t.key() {
				return
			}
			if f = t.fieldOf(s, p); f == nil {
				continue
			}
		}
		at := unsafe.Add(p, f.at)
		switch f.kind {
		case shapeStruct:
			t.object(f.of, at)
		case shapePointer:
			if t.space(); !t.null() {
				of := f.of
				if of == nil {
					of = s
				}
				t.object(of, f.grow(at))
			}
		default:
			t.space()
			t.rest(f, at)
		}
	}
}

// simple reads fields up to one whose value consists of others, or is not written as
// usual, and returns that one, with the offset of the one that is likely to come
// after it; nil at the end. It calls nothing.
func (t *trusted) simple(s *objectShape, next int, p unsafe.Pointer) (found *shapeField, after int) {
	n := len(t.b)
	b := t.b[:n+Pad]
	fields, all := unsafe.Pointer(unsafe.SliceData(s.fields)), len(s.fields)*fieldSize
	i := t.i
	for i < n {
		w := word(b, i)
		if w &= 0xffff; w != nextKey && w != firstKey {
			if byte(w) == '}' {
				t.i = i + 1
				return nil, 0
			}
			t.i = i
			return &unusual, next
		}
		// The key is mostly that of the next field, or of one soon after it.
		var f *shapeField
		w = word(b, i+2)
		for left := all; ; left -= fieldSize {
			if left == 0 {
				t.i = i
				return &unusual, next
			}
			f = (*shapeField)(unsafe.Add(fields, next))
			if next += fieldSize; next == all {
				next = 0
			}
			if (w^f.first)&f.mask == 0 && (f.last == 0 || i+int(f.skip) <= n && word(b, i+int(f.skip)-8) == f.last && (f.middle == 0 || word(b, i+10) == f.middle)) {
				break
			}
		}
		if i += int(f.skip); i >= n {
			break
		}
		c := byteOf(b, i)
		at := unsafe.Add(p, f.at)
		switch {
		case f.kind == shapeText && c == '"':
			end := i + 1
			for end < n {
				w := word(b, end)
				if found := marks(w); found != 0 {
					end += bits.TrailingZeros64(found) >> 3
					break
				}
				end += 8
			}
			if end < n && byteOf(b, end) == '"' {
				*(*string)(at) = unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i+1)), end-i-1) // nobody changes it
				i = end + 1
				continue
			}
		case f.kind > shapeBool:
		case f.kind == shapeBool:
			if c == 't' || c == 'f' {
				*(*bool)(at) = c == 't'
				i += len("true")
				if c == 'f' {
					i++
				}
				continue
			}
		case f.kind != shapeText:
			v, end := int64(0), i
			for c -= '0'; c <= 9; c = byteOf(b, end) - '0' {
				v = v*10 + int64(c)
				end++
			}
			if c += '0'; (c == ',' || c == '}') && end > i && end-i <= 18 && end < n {
				if f.kind == shapeInt {
					*(*int)(at) = int(v)
				} else {
					*(*int64)(at) = v
				}
				i = end
				continue
			}
		}
		t.i = i
		return f, next
	}
	t.fail()
	return nil, 0
}

// fieldOf is the field of the key that was read last. The value of a key that is none
// of the shape's is read too.
func (t *trusted) fieldOf(s *objectShape, p unsafe.Pointer) *shapeField {
	for i := range s.fields {
		if s.fields[i].name == t.last {
			return &s.fields[i]
		}
	}
	if s.keep == nil {
		t.skip()
		return nil
	}
	name := t.last
	s.keep(p, name, t.raw())
	return nil
}

// rest reads what is less common.
func (t *trusted) rest(f *shapeField, at unsafe.Pointer) {
	switch f.kind {
	case shapeText:
		*(*string)(at) = t.text()
	case shapeInt:
		*(*int)(at) = int(t.int())
	case shapeInt64:
		*(*int64)(at) = t.int()
	case shapeBool:
		*(*bool)(at) = t.boolean()
	case shapeRaw:
		*(*JSON)(at) = t.raw()
	case shapeContent:
		(*Content)(at).fill(t)
	case shapeList:
		if t.null() {
			return
		}
		*(*[]struct{})(at) = []struct{}{}
		for t.next() {
			t.object(f.of, f.grow(at))
		}
	default:
		f.other(t, at)
	}
}
