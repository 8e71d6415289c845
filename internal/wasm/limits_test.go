package wasm

import (
	"bytes"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitCases has for each limit a module with n of the limited items. It must be accepted
// with a limit of n and rejected with a limit of n-1.
var limitCases = map[string]struct {
	n     int
	build func(n int) []byte
}{
	"ModuleBytes": {100, func(n int) []byte {
		return binaryOf(section(sectionCustom, make([]byte, n-10)))
	}},
	"Types": {3, func(n int) []byte { return binaryOf(section(sectionType, times(n, 0x60, 0, 0))) }},
	"Params": {3, func(n int) []byte {
		return binaryOf(section(sectionType, leb(1), []byte{0x60}, times(n, 0x7f), leb(0)))
	}},
	"Results": {3, func(n int) []byte { return binaryOf(section(sectionType, leb(1), []byte{0x60, 0}, times(n, 0x7f))) }},
	"TypeValues": {5, func(n int) []byte {
		return binaryOf(
			section(sectionType, leb(2), []byte{0x60}, times(n-3, 0x7f), times(1, 0x7e), []byte{0x60, 0}, times(2, 0x7f)),
		)
	}},
	"Imports": {3, func(n int) []byte { return binaryOf(section(sectionImport, times(n, 1, 'm', 1, 'g', 3, 0x7f, 0))) }},
	"Functions": {3, func(n int) []byte {
		return binaryOf(
			section(sectionType, times(1, 0x60, 0, 0)),
			section(sectionFunction, times(n, 0)),
			section(sectionCode, times(n, 2, 0, 0x0b)),
		)
	}},
	"Tables": {3, func(n int) []byte {
		return binaryOf(
			section(sectionImport, times(1, 1, 'm', 1, 't', 1, 0x70, 0, 0)),
			section(sectionTable, times(n-1, 0x70, 0, 0)),
		)
	}},
	"TableEntries": {100, func(n int) []byte {
		return binaryOf(section(sectionTable, leb(2), []byte{0x70, 0, 40, 0x6f, 0, byte(n - 40)}))
	}},
	"MemoryPages": {100, func(n int) []byte { return binaryOf(section(sectionMemory, times(1, 0, byte(n)))) }},
	"Globals": {3, func(n int) []byte {
		return binaryOf(
			section(sectionImport, times(1, 1, 'm', 1, 'g', 3, 0x7f, 0)),
			section(sectionGlobal, times(n-1, 0x7f, 0, 0x41, 0, 0x0b)),
		)
	}},
	"Exports": {3, func(n int) []byte {
		var exports [][]byte
		for i := range n {
			exports = append(exports, append(str(strconv.Itoa(i)), 2, 0))
		}
		return binaryOf(section(sectionMemory, times(1, 0, 1)), section(sectionExport, vec(exports...)))
	}},
	"NameBytes": {3, func(n int) []byte {
		return binaryOf(section(sectionMemory, times(1, 0, 1)), section(sectionExport, leb(1), times(n, 'x'), []byte{2, 0}))
	}},
	"ElementSegments": {3, func(n int) []byte { return binaryOf(section(sectionElement, times(n, 1, 0, 0))) }},
	"ElementEntries": {5, func(n int) []byte {
		return binaryOf(
			section(
				sectionElement,
				leb(2),
				[]byte{5, 0x70},
				times(2, 0xd0, 0x70, 0x0b),
				[]byte{5, 0x70},
				times(n-2, 0xd0, 0x70, 0x0b),
			),
		)
	}},
	"DataSegments": {3, func(n int) []byte { return binaryOf(section(sectionData, times(n, 1, 0))) }},
	"BodyBytes":    {30, func(n int) []byte { return oneFunction(bytes.Repeat([]byte{1}, n-2)...) }},
	"CodeBytes": {40, func(n int) []byte {
		b := bodyOf(leb(0), append(bytes.Repeat([]byte{1}, n/2-2), 0x0b)...)
		return binaryOf(
			section(sectionType, times(1, 0x60, 0, 0)),
			section(sectionFunction, times(2, 0)),
			section(sectionCode, vec(b, b)),
		)
	}},
	"FunctionLocals": {7, func(n int) []byte {
		return binaryOf(section(sectionType, times(1, 0x60, 2, 0x7f, 0x7f, 0)), section(sectionFunction, times(1, 0)),
			section(sectionCode, vec(bodyOf(times(1, byte(n-2), 0x7b), 0x0b))))
	}},
	"Locals": {8, func(n int) []byte {
		b := bodyOf(times(1, byte(n/2-1), 0x7f), 0x0b)
		return binaryOf(
			section(sectionType, times(1, 0x60, 1, 0x7f, 0)),
			section(sectionFunction, times(2, 0)),
			section(sectionCode, vec(b, b)),
		)
	}},
	"Nesting":     {3, func(n int) []byte { return oneFunction(nested(n, 0x02, 0x40)...) }},
	"LoopNesting": {3, func(n int) []byte { return oneFunction(nested(n, 0x02, 0x40, 0x03, 0x40)...) }},
	"BranchTargets": {3, func(n int) []byte {
		return oneFunction(append(append([]byte{0x41, 0, 0x0e}, times(n, 0)...), 0)...)
	}},
	"TotalBranchTargets": {6, func(n int) []byte {
		return oneFunction(bytes.Repeat(append(append([]byte{0x41, 0, 0x0e}, times(n/2, 0)...), 0), 2)...)
	}},
	"BranchValues": {4, func(n int) []byte {
		return oneFunction(append([]byte{0x02, 0x7f}, append(bytes.Repeat([]byte{0x41, 0, 0x0c, 0}, n), 0x0b, 0x1a)...)...)
	}},
	"Blocks":       {7, func(n int) []byte { return oneFunction(bytes.Repeat([]byte{0x02, 0x40, 0x0b}, n)...) }},
	"BlockSquares": {49, func(n int) []byte { return oneFunction(bytes.Repeat([]byte{0x02, 0x40, 0x0b}, 7)...) }},
	"BlockLocals": {21, func(n int) []byte {
		return withLocals(times(1, 3, 0x7f), bytes.Repeat([]byte{0x02, 0x40, 0x0b}, n/3)...)
	}},
	"LoopLocals": {21, func(n int) []byte {
		return withLocals(times(1, 3, 0x7f), bytes.Repeat([]byte{0x03, 0x40, 0x0b}, n/3)...)
	}},
	"CallGlobals": {4, func(n int) []byte { return oneFunction(bytes.Repeat([]byte{0x10, 0}, n)...) }},
}

// nested returns open repeated n times, followed by an end for each block. open consists of
// two-byte instructions that each begin a block.
func nested(n int, open ...byte) []byte {
	return append(bytes.Repeat(open, n), bytes.Repeat([]byte{0x0b}, n*len(open)/2)...)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := compiler(t)
	fields := reflect.TypeFor[Limits]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		t.Run(name, func(t *testing.T) {
			c, ok := limitCases[name]
			require.True(t, ok, "the limit has no case")
			b := c.build(c.n)

			l := DefaultLimits()
			reflect.ValueOf(&l).Elem().FieldByName(name).SetInt(int64(c.n))
			_, err := Decode(b, l)
			require.NoError(t, err)
			compiled, err := r.CompileModule(t.Context(), b)
			require.NoError(t, err, "the case is not valid")
			require.NoError(t, compiled.Close(t.Context()))

			reflect.ValueOf(&l).Elem().FieldByName(name).SetInt(int64(c.n - 1))
			_, err = Decode(b, l)
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, OverLimit, refusal.Kind, refusal)
			require.Equal(t, uint64(c.n), refusal.Value, refusal)
			require.Equal(t, uint64(c.n-1), refusal.Limit, refusal)
			require.Contains(t, err.Error(), strconv.Itoa(c.n-1))
		})
	}
}
