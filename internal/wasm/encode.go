package wasm

import (
	"encoding/binary"
)

// Encode returns the module in the binary format, without custom sections. Outside of
// function bodies, numbers have their shortest encoding.
func (m *Module) Encode() []byte {
	size := 1 << 10
	for i := range m.Code {
		size += len(m.Code[i].Body) + 8 + 4*len(m.Code[i].Locals)
	}
	for i := range m.Data {
		size += len(m.Data[i].Init) + 16
	}
	e := encoder{out: make([]byte, 0, size)}
	e.out = append(e.out, 0, 'a', 's', 'm', 1, 0, 0, 0)
	e.head(m)
	e.code(m.Code)
	encodeAll(&e, sectionData, m.Data, (*encoder).data)
	return e.out
}

// encoder appends sections to out. It builds the content of a section in the buffer section first,
// because the content's size precedes the content. Only the code section is written to out
// directly.
type encoder struct {
	out, section []byte
}

func (e *encoder) head(m *Module) {
	encodeAll(e, sectionType, m.Types, (*encoder).funcType)
	encodeAll(e, sectionImport, m.Imports, (*encoder).imp)
	encodeAll(e, sectionFunction, m.Functions, func(e *encoder, f *uint32) { e.u32(*f) })
	encodeAll(e, sectionTable, m.Tables, (*encoder).table)
	encodeAll(e, sectionMemory, m.Memories, func(e *encoder, m *Memory) { e.sizes(m.Size) })
	encodeAll(e, sectionGlobal, m.Globals, (*encoder).global)
	encodeAll(e, sectionExport, m.Exports, (*encoder).export)
	if m.Start != nil {
		e.u32(*m.Start)
		e.flush(sectionStart)
	}
	encodeAll(e, sectionElement, m.Elements, (*encoder).element)
	if m.HasDataCount {
		e.u32(uint32(len(m.Data)))
		e.flush(sectionDataCount)
	}
}

// encodeAll encodes a section that is a vector. It omits an empty section.
func encodeAll[T any](e *encoder, section byte, all []T, one func(*encoder, *T)) {
	if len(all) == 0 {
		return
	}
	e.u32(uint32(len(all)))
	for i := range all {
		one(e, &all[i])
	}
	e.flush(section)
}

func (e *encoder) flush(section byte) {
	e.out = append(e.out, section)
	e.out = binary.AppendUvarint(e.out, uint64(len(e.section)))
	e.out = append(e.out, e.section...)
	e.section = e.section[:0]
}

func (e *encoder) u8(b ...byte) { e.section = append(e.section, b...) }
func (e *encoder) u32(v uint32) { e.section = binary.AppendUvarint(e.section, uint64(v)) }

func (e *encoder) bytes(b []byte) {
	e.u32(uint32(len(b)))
	e.section = append(e.section, b...)
}

func (e *encoder) name(s string) {
	e.u32(uint32(len(s)))
	e.section = append(e.section, s...)
}

func (e *encoder) types(types []ValueType) {
	e.u32(uint32(len(types)))
	for _, t := range types {
		e.u8(byte(t))
	}
}

func (e *encoder) funcType(t *FuncType) {
	e.u8(0x60)
	e.types(t.Params)
	e.types(t.Results)
}

func (e *encoder) sizes(s Range) {
	if !s.HasMax {
		e.u8(0)
		e.u32(s.Min)
		return
	}
	e.u8(1)
	e.u32(s.Min)
	e.u32(s.Max)
}

func (e *encoder) table(t *Table) {
	e.u8(byte(t.Type))
	e.sizes(t.Size)
}

func (e *encoder) globalType(t GlobalType) {
	e.u8(byte(t.Type), bit(t.Mutable))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (e *encoder) imp(i *Import) {
	e.name(i.Module)
	e.name(i.Name)
	e.u8(byte(i.Kind))
	switch i.Kind {
	case ExternalFunction:
		e.u32(i.Type)
	case ExternalTable:
		e.table(&i.Table)
	case ExternalMemory:
		e.sizes(i.Memory.Size)
	case ExternalGlobal:
		e.globalType(i.Global)
	}
}

func (e *encoder) global(g *Global) {
	e.globalType(g.GlobalType)
	e.constExpr(&g.Init)
}

func (e *encoder) export(x *Export) {
	e.name(x.Name)
	e.u8(byte(x.Kind))
	e.u32(x.Index)
}

func (e *encoder) element(s *Element) {
	exprs := s.Exprs != nil
	flags := uint32(0)
	switch {
	case s.Mode == Passive:
		flags = elementNotActive
	case s.Mode == Declarative:
		flags = elementNotActive | elementDeclarative
	case s.Table != 0 || exprs && s.Type != FuncRef:
		flags = elementTable
	}
	if exprs {
		flags |= elementExprs
	}
	e.u32(flags)
	if s.Mode == Active {
		if flags&elementTable != 0 {
			e.u32(s.Table)
		}
		e.constExpr(&s.Offset)
	}
	switch {
	case flags&3 == 0:
	case exprs:
		e.u8(byte(s.Type))
	default:
		e.u8(0)
	}
	if !exprs {
		e.u32(uint32(len(s.Functions)))
		for _, f := range s.Functions {
			e.u32(f)
		}
		return
	}
	e.u32(uint32(len(s.Exprs)))
	for i := range s.Exprs {
		e.constExpr(&s.Exprs[i])
	}
}

func (e *encoder) constExpr(c *ConstExpr) {
	if c.Op == OpV128Const {
		e.u8(prefixVector)
	}
	e.u8(byte(c.Op))
	switch c.Op {
	case OpI32Const:
		e.section = appendSigned(e.section, int64(int32(c.Bits)))
	case OpI64Const:
		e.section = appendSigned(e.section, int64(c.Bits))
	case OpF32Const:
		e.section = binary.LittleEndian.AppendUint32(e.section, uint32(c.Bits))
	case OpF64Const:
		e.section = binary.LittleEndian.AppendUint64(e.section, c.Bits)
	case OpV128Const:
		e.section = binary.LittleEndian.AppendUint64(e.section, c.Bits)
		e.section = binary.LittleEndian.AppendUint64(e.section, c.High)
	case OpRefNull:
		e.u8(byte(c.Bits))
	default: // OpGlobalGet, OpRefFunc
		e.u32(uint32(c.Bits))
	}
	e.u8(byte(OpEnd))
}

// appendSigned appends v to b as a signed LEB128 number.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func (e *encoder) data(s *Data) {
	if s.Mode == Passive {
		e.u32(1)
	} else {
		e.u32(0)
		e.constExpr(&s.Offset)
	}
	e.bytes(s.Init)
}

// code writes the bodies directly to out, because they are most of a module and their sizes are
// known.
func (e *encoder) code(all []Code) {
	if len(all) == 0 {
		return
	}
	size := sizeOf(len(all))
	for i := range all {
		n := bodySize(&all[i])
		size += sizeOf(n) + n
	}
	e.out = append(e.out, sectionCode)
	e.out = binary.AppendUvarint(e.out, uint64(size))
	e.out = binary.AppendUvarint(e.out, uint64(len(all)))
	for i := range all {
		c := &all[i]
		e.out = binary.AppendUvarint(e.out, uint64(bodySize(c)))
		e.out = binary.AppendUvarint(e.out, uint64(len(c.Locals)))
		for _, g := range c.Locals {
			e.out = binary.AppendUvarint(e.out, uint64(g.Count))
			e.out = append(e.out, byte(g.Type))
		}
		e.out = append(e.out, c.Body...)
	}
}

func bodySize(c *Code) int {
	n := sizeOf(len(c.Locals)) + len(c.Body)
	for _, g := range c.Locals {
		n += sizeOf(int(g.Count)) + 1
	}
	return n
}

// sizeOf returns the number of bytes of v as an unsigned LEB128 number.
func sizeOf(v int) int {
	n := 1
	for v >>= 7; v != 0; v >>= 7 {
		n++
	}
	return n
}
