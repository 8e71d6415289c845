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
	first, mask uint64 // the first eight bytes of the key, or all and the quote behind it
	last        uint64 // of a longer key the last seven bytes, and the quote
	at          uintptr
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
	n := len(t.b)
	if cap(t.b)-n < Pad {
		t.b = append(make([]byte, 0, n+Pad), t.b...)
	}
	b := t.b[:n+Pad]
	fields, all := unsafe.Pointer(unsafe.SliceData(s.fields)), len(s.fields)*fieldSize
	i, next := t.i+1, 0
	for i < n {
		c := byteOf(b, i)
		if c == ',' {
			i++
			c = byteOf(b, i)
		}
		if c != '"' {
			i++
			if c == '}' {
				t.i = i
				return
			}
			if c <= ' ' || c == ',' {
				continue
			}
			break
		}
		// The key is mostly that of the next field, or of one soon after it.
		var f *shapeField
		w := word(b, i+1)
		for range s.fields {
			g := (*shapeField)(unsafe.Add(fields, next))
			if next += fieldSize; next == all {
				next = 0
			}
			if (w^g.first)&g.mask == 0 && (len(g.name) < 8 || g.endsAt(b[:n], i+1)) {
				f = g
				i += len(g.name) + 2
				break
			}
		}
		if f == nil || i >= n || byteOf(b, i) != ':' || byteOf(b, i+1) <= ' ' {
			if f != nil {
				i -= len(f.name) + 2
			}
			t.i = i
			f = t.fieldOf(s, p)
			if i = t.i; f == nil {
				continue
			}
		} else {
			i++
		}
		at := unsafe.Add(p, f.at)
		switch f.kind {
		case shapeText:
			if byteOf(b, i) == '"' {
				end := i + 1
				for end < n {
					w := word(b, end)
					x, y := w^quotes, w^backs
					// The lowest bit that is set marks a byte that is 0 in x or y.
					if found := ((x-ones)&^x | (y-ones)&^y) & highs; found != 0 {
						end += bits.TrailingZeros64(found) >> 3
						break
					}
					end += 8
				}
				if end < n && byteOf(b, end) == '"' {
					*(*string)(at) = unsafe.String(&b[i+1], end-i-1) // nobody changes it
					i = end + 1
					continue
				}
			}
			t.i = i
			*(*string)(at) = t.text()
		case shapeInt, shapeInt64:
			v, end := int64(0), i
			for {
				c := byteOf(b, end) - '0'
				if c > 9 || end >= n {
					break
				}
				v = v*10 + int64(c)
				end++
			}
			if c := byteOf(b, end); end > i && end-i <= 18 && c != '.' && c|0x20 != 'e' {
				t.i = end
			} else {
				t.i = i
				v = t.int()
			}
			if f.kind == shapeInt {
				*(*int)(at) = int(v)
			} else {
				*(*int64)(at) = v
			}
		case shapeStruct:
			t.i = i
			t.object(f.of, at)
		case shapePointer:
			if t.i = i; !t.null() {
				of := f.of
				if of == nil {
					of = s
				}
				t.object(of, f.grow(at))
			}
		default:
			t.i = i
			t.rest(f, at)
		}
		i = t.i
	}
	t.fail()
}

// endsAt reports whether the rest of a long key, which begins at i, is the field's too.
func (f *shapeField) endsAt(b []byte, i int) bool {
	end := i + len(f.name)
	return end < len(b) && word(b[:end+1], end-7) == f.last && (len(f.name) < 16 || string(b[i:end]) == f.name)
}

// fieldOf is the field of the key that comes, which is not written as usual. That of
// a key which is none of the shape's is read too.
func (t *trusted) fieldOf(s *objectShape, p unsafe.Pointer) *shapeField {
	if !t.named() {
		return nil
	}
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
