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

// A shapeField is one of the fields, in the order in which they are written. The last
// one is none: it has a mask that lets all keys pass, and an end that no key has.
type shapeField struct {
	name        string
	first, mask uint64 // the first eight bytes of the key, with the quote and the colon behind it
	middle      uint64 // of a key longer than 14 bytes the second eight
	last        uint64 // of a key longer than 6 bytes the last six, the quote and the colon
	at          uintptr
	skip        uint8 // how many bytes there are from the comma before the key to the value
	kind        shapeKind
	of          *objectShape // of what it consists of; nil for a pointer to the same
	grow        func(p unsafe.Pointer, n int) unsafe.Pointer
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

// extended adds an element to a list. If there is no room, it makes some for about as
// many as are to come.
func extended[T any](v *[]T, toCome int) unsafe.Pointer {
	list := *v
	n := len(list)
	if n == cap(list) {
		list = append(make([]T, 0, n+max(min(toCome, 64), n/2)), list...)
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

// A place is an object that is read, and how far it is.
type place struct {
	s     *objectShape
	p     unsafe.Pointer
	next  unsafe.Pointer // the *shapeField that is likely to come
	outer bool           // object reads it, and not simple
}

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
	if !t.padded {
		t.pad()
	}
	depth := t.depth
	if depth == len(t.places) {
		inner := trusted{b: t.b, i: t.i, own: true, padded: true}
		inner.object(s, p)
		t.i, t.bad = inner.i, t.bad || inner.bad
		return
	}
	t.places[depth] = place{s: s, p: p, next: unsafe.Pointer(unsafe.SliceData(s.fields)), outer: true}
	for t.depth++; t.depth > depth; {
		f := t.simple()
		if f == nil {
			break
		}
		in := &t.places[t.depth-1]
		if f == &unusual {
			if !t.key() {
				t.depth--
				continue
			}
			if f = t.fieldOf(in.s, in.p); f == nil {
				continue
			}
		}
		t.value(f, in.s, unsafe.Add(in.p, f.at))
	}
	t.depth = depth
}

// pad sees to it that there is room behind the text, which begins with what ends a number.
func (t *trusted) pad() {
	n := len(t.b)
	if cap(t.b)-n < Pad || !t.own {
		t.b, t.own = append(make([]byte, 0, n+Pad), t.b...), true
	}
	t.b[:n+1][n], t.padded = 0, true
}

// value reads the value of a field that is not simple.
func (t *trusted) value(f *shapeField, s *objectShape, at unsafe.Pointer) {
	t.space()
	switch f.kind {
	case shapeStruct:
		t.object(f.of, at)
	case shapePointer:
		if !t.null() {
			if f.of != nil {
				s = f.of
			}
			t.object(s, f.grow(at, 1))
		}
	case shapeContent:
		(*Content)(at).fill(t)
	case shapeList:
		if t.null() {
			return
		}
		*(*[]struct{})(at) = []struct{}{}
		for toCome := 1; t.next(); {
			begin := t.i
			t.object(f.of, f.grow(at, toCome))
			toCome = 1 + (len(t.b)-t.i)/(t.i-begin+1) // if they are as long as this one
		}
	case shapeText:
		*(*string)(at) = t.text()
	case shapeInt:
		*(*int)(at) = int(t.int())
	case shapeInt64:
		*(*int64)(at) = t.int()
	case shapeBool:
		*(*bool)(at) = t.boolean()
	case shapeRaw:
		*(*JSON)(at) = t.rawObject()
	default:
		f.other(t, at)
	}
}

// simple reads the object that is in the last place, and those in it, up to a field
// whose value has to be made, or is not written as usual, and returns that one; nil at
// the end. It calls nothing: a call costs as much as reading ten bytes, and all that is
// at hand has to be put away for it.
func (t *trusted) simple() *shapeField {
	n := len(t.b)
	b := t.b[:n+Pad]
	in := &t.places[t.depth-1]
	p, next := in.p, in.next
	i := t.i
	for i < n {
		w := word(b, i) & 0xffff
		if w != nextKey && w != firstKey {
			if byte(w) != '}' {
				t.i, in.next = i, next
				return &unusual
			}
			i++
			t.depth--
			if in.outer {
				t.i = i
				return nil
			}
			in = (*place)(unsafe.Add(unsafe.Pointer(in), -placeSize))
			p, next = in.p, in.next
			continue
		}
		// The key is mostly that of the next field, or of one soon after it.
		var f *shapeField
		w = word(b, i+2)
		for {
			f = (*shapeField)(next)
			next = unsafe.Add(next, fieldSize)
			if (w^f.first)&f.mask != 0 {
				continue
			}
			if f.last == 0 || i+int(f.skip) <= n && word(b, i+int(f.skip)-8) == f.last && (f.middle == 0 || word(b, i+10) == f.middle) {
				break
			}
			if f.mask == 0 { // the last one
				next = unsafe.Pointer(unsafe.SliceData(in.s.fields))
				if t.searched == i {
					t.i, in.next = i, next
					return &unusual
				}
				t.searched = i // for the first time, or as if for the second, which is only slower
			}
		}
		if i += int(f.skip); i >= n {
			break
		}
		c := byteOf(b, i)
		at := unsafe.Add(p, f.at)
		if f.kind == shapeText {
			if c == '"' {
				end := i + 1
				for {
					w := word(b, end)
					if found := marks(w); found != 0 {
						end += bits.TrailingZeros64(found) >> 3
						break
					}
					if end += 8; end >= n {
						break
					}
				}
				if end < n && byteOf(b, end) == '"' {
					*(*stringHeader)(at) = stringHeader{unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i+1), end - i - 1} // nobody changes it
					i = end + 1
					continue
				}
			}
		} else if f.kind <= shapeInt64 {
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
		} else if f.kind == shapeStruct {
			if c == '{' && t.depth < len(t.places) {
				t.depth++
				in.next = next
				in = (*place)(unsafe.Add(unsafe.Pointer(in), placeSize))
				p, next = at, unsafe.Pointer(unsafe.SliceData(f.of.fields))
				in.s, in.p, in.outer = f.of, p, false
				continue
			}
		} else if f.kind == shapeBool {
			if c == 't' || c == 'f' {
				*(*bool)(at) = c == 't'
				i += len("true")
				if c == 'f' {
					i++
				}
				continue
			}
		}
		t.i, in.next = i, next
		return f
	}
	t.fail()
	return nil
}

const placeSize = int(unsafe.Sizeof(place{}))

// A stringHeader is what a string consists of.
type stringHeader struct {
	p unsafe.Pointer
	n int
}

// fieldOf is the field of the key that was read last. The value of a key that is none
// of the shape's is read too.
func (t *trusted) fieldOf(s *objectShape, p unsafe.Pointer) *shapeField {
	fields := s.fields[:len(s.fields)-1]
	for i := range fields {
		if fields[i].name == t.last {
			return &fields[i]
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
