package abijson

import (
	"math/bits"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/word"
)

// An objectShape describes how a reader decodes an object into a struct. The reader decodes most of
// an object in one function that calls no others. In a module, a call costs as much as reading ten
// bytes. A reader with shapes takes two thirds of the time of generated code, and less space.
type objectShape struct {
	fields []shapeField
	common bool                                            // starts with a [abi.Common]
	keep   func(p unsafe.Pointer, name string, raw []byte) // nil: skip unknown fields
}

// A shapeField is one field of an objectShape. The fields are in the order in which the
// host writes them. The last one is a sentinel that matches no text.
type shapeField struct {
	name        string
	first, mask uint64 // first eight bytes of the text from the comma before the key to the colon after it
	middle      uint64 // second eight bytes, if there are more than 16
	last        uint64 // last eight bytes, if there are more than eight
	at          uintptr
	skip        uint8 // number of bytes from the comma to the value; 0 for the sentinel
	kind        shapeKind
	of          *objectShape // shape of the struct or element; nil for a pointer to the same type
	size        uintptr      // size of a list's element
	grow        func(p unsafe.Pointer, n int) unsafe.Pointer
	other       func(t *reader, p unsafe.Pointer)
}

const fieldSize = int(unsafe.Sizeof(shapeField{}))

type shapeKind uint8

const (
	shapeText shapeKind = iota
	shapeContent
	shapeStruct
	shapeInt
	shapeInt64
	shapeBool
	shapeRaw
	shapePointer // a pointer to a struct, which grow allocates
	shapeList    // a list of structs; grow appends one
	shapeOther
)

// grown sets *p to the address of a new T, and returns that address.
func grown[T any](p **T) unsafe.Pointer {
	*p = new(T)
	return unsafe.Pointer(*p)
}

// extended appends a zero element to a list and returns the element's address. If the list is full, extended
// allocates capacity for toCome more elements, at most 64, but for at least half of the length. toCome must be at
// least 1.
func extended[T any](v *[]T, toCome int) unsafe.Pointer {
	list := *v
	n := len(list)
	if n == cap(list) {
		list = append(make([]T, 0, n+max(min(toCome, 64), n/2)), list...)
	}
	*v = list[:n+1]
	return unsafe.Pointer(&(*v)[n])
}

// Sentinels that simple returns instead of a field.
var (
	noMatch    shapeField // the next key is spelled in an unusual way or unknown
	elementEnd shapeField // a list element ended, and simple cannot start the next one itself
)

// A place is an object that is being read, and the position within the object.
type place struct {
	s     *objectShape
	p     unsafe.Pointer
	field int  // byte offset in s.fields of the field that is expected next
	outer bool // run was called for this object

	// The following fields are set if the object is an element of a list.
	list  unsafe.Pointer // the slice; nil if the object is not an element
	size  uintptr        // size of an element
	begin int            // index in the text at which the list begins
	grow  func(p unsafe.Pointer, n int) unsafe.Pointer
}

// object reads an object or null into the struct at p.
func (t *reader) object(s *objectShape, p unsafe.Pointer) {
	switch t.Space() {
	case '{':
	case 'n':
		t.Null()
		return
	default:
		t.Fail()
		return
	}
	if !t.padded {
		t.pad()
	}
	depth := t.depth
	if depth == len(t.places) {
		inner := reader{Parser: jsoncodec.Parser{B: t.B, I: t.I, Own: true}, padded: true}
		inner.object(s, p)
		t.I, t.Bad = inner.I, t.Bad || inner.Bad
		return
	}
	in := &t.places[depth]
	t.depth++
	in.s, in.list, in.outer = s, nil, true
	if t.enter(in, p); s.common {
		t.fastCommon(in)
	}
	t.run(depth)
}

// enter starts an object. It overwrites the opening brace with a comma, so that every key
// follows a comma.
func (t *reader) enter(in *place, p unsafe.Pointer) {
	in.p, in.field = p, 0
	word.StoreByte(t.B, t.I, ',')
}

// run reads the objects in all places above depth.
func (t *reader) run(depth int) {
	for t.depth > depth {
		f := t.simple()
		if f == nil {
			break
		}
		in := &t.places[t.depth-1]
		switch f {
		case &noMatch:
			if t.Key() {
				if f = t.fieldOf(in.s, in.p); f != nil {
					t.value(f, in)
				}
				continue
			}
			if in.list == nil {
				t.depth--
				continue
			}
			fallthrough
		case &elementEnd:
			t.element(in)
		default:
			t.value(f, in)
		}
	}
	t.depth = depth
}

// element advances to the next element of a list, or ends the list.
func (t *reader) element(in *place) {
	for t.Next() {
		n, length := len(*(*[]struct{})(in.list)), 0
		if n > 0 {
			length = (len(t.B) - t.I) * n / (t.I - in.begin + 1) // an estimate from the size of the elements so far
		}
		p := in.grow(in.list, 1+length)
		if c := t.B[t.I]; c == '{' {
			t.enter(in, p)
			return
		}
		if !t.Null() {
			t.Fail()
		}
	}
	t.depth--
}

// pad ensures that Pad bytes follow the text. The first two are quotation marks, which end any
// number, string or object.
func (t *reader) pad() {
	n := len(t.B)
	if cap(t.B)-n < Pad || !t.Own {
		t.B, t.Own = append(make([]byte, 0, n+Pad), t.B...), true
	}
	behind := t.B[n : n+2]
	behind[0], behind[1] = '"', '"'
	t.padded = true
}

// value reads the value of a field that simple did not read.
func (t *reader) value(f *shapeField, in *place) {
	at := unsafe.Add(in.p, f.at)
	switch c := t.Space(); f.kind {
	case shapeText:
		if c == '"' {
			*(*string)(at) = t.UnescapeInPlace(t.I+1, t.I+1)
		} else if !t.Null() {
			t.Fail()
		}
	case shapeContent:
		(*Content)(at).fill(t)
	case shapeStruct:
		t.inner(f.of, at)
	case shapePointer:
		if !t.Null() {
			s := in.s
			if f.of != nil {
				s = f.of
			}
			t.inner(s, f.grow(at, 1))
		}
	case shapeList:
		if t.Null() {
			return
		}
		if list := (*[]struct{})(at); *list == nil {
			*list = []struct{}{}
		}
		if t.depth < len(t.places) && c == '[' {
			list := &t.places[t.depth]
			t.depth++
			list.s, list.outer, list.list, list.size, list.begin, list.grow = f.of, false, at, f.size, t.I, f.grow
			t.element(list)
			return
		}
		for t.Next() {
			t.object(f.of, f.grow(at, 1))
		}
	case shapeInt:
		*(*int)(at) = int(t.Int())
	case shapeInt64:
		*(*int64)(at) = t.Int()
	case shapeBool:
		*(*bool)(at) = t.Bool()
	case shapeRaw:
		*(*abi.JSON)(at) = t.rawObject()
	default:
		f.other(t, at)
	}
}

// inner starts an object that is nested in another one.
func (t *reader) inner(s *objectShape, p unsafe.Pointer) {
	if t.depth == len(t.places) || t.Space() != '{' {
		t.object(s, p)
		return
	}
	in := &t.places[t.depth]
	t.depth++
	in.s, in.list, in.outer = s, nil, false
	t.enter(in, p)
}

// simple reads the object in the last place, and the objects inside it, up to a field whose value
// must be allocated or is not in the host's usual encoding. It returns that field, or nil at the
// end of the object. simple calls no other function, because a call costs as much as reading ten
// bytes and spills all local variables. It does not check for the end of the text, because the
// padding that pad adds is not a valid key, value or end of an object.
func (t *reader) simple() *shapeField {
	n := len(t.B)
	b := t.B[:n+Pad]
	in := (*place)(unsafe.Add(unsafe.Pointer(&t.places), (t.depth-1)*placeSize))
	p, fields, k, i := in.p, unsafe.Pointer(unsafe.SliceData(in.s.fields)), in.field, t.I
	for {
		// The next key is usually that of the expected field or of a field soon after.
		w := word.Load(b, i)
		f := (*shapeField)(unsafe.Add(fields, k))
		skip := int(f.skip)
		if (w^f.first)&f.mask != 0 ||
			skip > 8 && (word.Load(b, i+skip-8) != f.last || skip > 16 && word.Load(b, i+8) != f.middle) {
			if byte(w) == '}' {
				i++
				if in.list != nil {
					if w := word.Load(b, i); byte(w) == ']' {
						i++
					} else if list := (*sliceHeader)(in.list); uint16(w) == ','|'{'<<8 && list.n < list.room {
						p = unsafe.Add(list.p, uintptr(list.n)*in.size)
						list.n++
						k = 0
						i++
						word.StoreByte(b, i, ',')
						continue
					} else {
						t.I = i
						return &elementEnd
					}
				}
				t.depth--
				if in.outer {
					t.I = i
					return nil
				}
				in = (*place)(unsafe.Add(unsafe.Pointer(in), -placeSize))
				p, fields, k = in.p, unsafe.Pointer(unsafe.SliceData(in.s.fields)), in.field
				continue
			}
			for begin := k; ; {
				if skip == 0 {
					k = -fieldSize
				}
				k += fieldSize
				if k == begin || byte(w) != ',' {
					word.StorePointer(unsafe.Pointer(&in.p), p)
					t.I, in.field = i, begin
					return &noMatch
				}
				f = (*shapeField)(unsafe.Add(fields, k))
				skip = int(f.skip)
				if (w^f.first)&f.mask == 0 &&
					(skip <= 8 || word.Load(b, i+skip-8) == f.last && (skip <= 16 || word.Load(b, i+8) == f.middle)) {
					break
				}
			}
		}
		k += fieldSize
		i += skip
		w = word.Load(b, i)
		at := unsafe.Add(p, f.at)
		if f.kind <= shapeContent {
			if byte(w) == '"' {
				end := i + 1
				found := word.MayEnd(w>>8) & word.Highs
				if found == 0 {
					end = i + 8
				}
				for {
					if found == 0 {
						few := end + 40
						for {
							if found = word.MayEnd(word.Load(b, end)) & word.Highs; found != 0 {
								break
							}
							if end += 8; end < few { // most strings are short
								continue
							}
							for few = n + Pad; end+64 <= n; end += 64 {
								if (word.MayEnd(word.Load(b, end))|word.MayEnd(word.Load(b, end+8))|
									word.MayEnd(word.Load(b, end+16))|word.MayEnd(word.Load(b, end+24))|
									word.MayEnd(word.Load(b, end+32))|word.MayEnd(word.Load(b, end+40))|
									word.MayEnd(word.Load(b, end+48))|word.MayEnd(word.Load(b, end+56)))&word.Highs != 0 {
									break
								}
							}
						}
					}
					end += bits.TrailingZeros64(found) >> 3
					if c := word.Byte(b, end); c == '"' || c == '\\' {
						break
					}
					end++
					found = 0
				}
				if end < n && word.Byte(b, end) == '"' {
					word.StoreString(at, b, i+1, end-i-1)
					if f.kind == shapeContent {
						(*content)(at).kind = contentText
					}
					i = end + 1
					continue
				}
			}
		} else if f.kind == shapeStruct {
			if byte(w) == '{' && t.depth < len(t.places) {
				t.depth++
				word.StorePointer(unsafe.Pointer(&in.p), p)
				in.field = k
				in = (*place)(unsafe.Add(unsafe.Pointer(in), placeSize))
				p, fields, k = at, unsafe.Pointer(unsafe.SliceData(f.of.fields)), 0
				word.StorePointer(unsafe.Pointer(&in.s), unsafe.Pointer(f.of))
				word.StorePointer(unsafe.Pointer(&in.list), nil)
				in.outer = false
				word.StoreByte(b, i, ',')
				continue
			}
		} else if f.kind <= shapeInt64 {
			v, end := uint64(0), i
			if (w & (w + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) == 0x3030303030303030 {
				v = (w & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8
				v = (v & 0x00ff00ff00ff00ff) * 6553601 >> 16
				v = (v & 0x0000ffff0000ffff) * 42949672960001 >> 32
				end += 8
				w = word.Load(b, end)
			}
			for c := w&0xff - '0'; c <= 9; c = w&0xff - '0' {
				v = v*10 + c
				end++
				if w >>= 8; w == 0 {
					w = word.Load(b, end)
				}
			}
			if c := byte(w); (c == ',' || c == '}') && end > i && end-i <= 18 {
				if f.kind == shapeInt {
					*(*int)(at) = int(v)
				} else {
					*(*int64)(at) = int64(v)
				}
				i = end
				continue
			}
		} else if f.kind == shapeBool {
			if uint32(w) == 't'|'r'<<8|'u'<<16|'e'<<24 {
				*(*bool)(at) = true
				i += 4
				continue
			}
			if uint32(w) == 'f'|'a'<<8|'l'<<16|'s'<<24 && word.Byte(b, i+4) == 'e' {
				*(*bool)(at) = false
				i += 5
				continue
			}
		}
		word.StorePointer(unsafe.Pointer(&in.p), p)
		t.I, in.field = i, k
		return f
	}
}

const placeSize = int(unsafe.Sizeof(place{}))

// content has the memory layout of [abi.Content].
type content struct {
	_    string
	_    []abi.Part
	kind uint8
}

// contentText is the kind of content that is a string.
const contentText = 1

// A sliceHeader has the memory layout of a slice.
type sliceHeader struct {
	p       unsafe.Pointer
	n, room int
}

// fieldOf returns the field of s whose key was read last. If s has no such field, fieldOf also
// reads the value and returns nil.
func (t *reader) fieldOf(s *objectShape, p unsafe.Pointer) *shapeField {
	fields := s.fields[:len(s.fields)-1]
	for i := range fields {
		if fields[i].name == t.Last {
			return &fields[i]
		}
	}
	if s.keep == nil {
		t.Skip()
		return nil
	}
	name := t.Last
	s.keep(p, name, t.Raw())
	return nil
}
