package wasm

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	limit  = []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1
	types1 = section(sectionType, []byte{1, 0x60, 0, 0})
	memory = section(sectionMemory, []byte{1, 0, 1})
	table1 = section(sectionTable, []byte{1, 0x70, 0, 1})
)

// withBody returns a module with one function that has the given code entry.
func withBody(body ...byte) []byte {
	return binaryOf(types1, section(sectionFunction, []byte{1, 0}), section(sectionCode, append([]byte{1}, body...)))
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		module []byte
		kind   Kind
		want   string // substring of the error
	}{
		// Files that are not modules.
		{"empty", nil, Malformed, "this is empty"},
		{"not wasm", []byte("hello"), Malformed, "begins with 68 65 6c 6c"},
		{"text", []byte("\n (module)"), Malformed, "assemble it first"},
		{"gzip", []byte("\x1f\x8b\x08aaaaaa"), Malformed, "compressed with gzip"},
		{"zstd", []byte("\x28\xb5\x2f\xfdaaaaaa"), Malformed, "compressed with zstd"},
		{"zip", []byte("PK\x03\x04aaaaaa"), Malformed, "zip archive"},
		{"tar", append(make([]byte, 257), "ustar\x00"...), Malformed, "tar archive"},
		{"elf", []byte("\x7fELF...."), Malformed, "another machine"},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), Unsupported, "build a core module"},
		{"version 2", []byte("\x00asm\x02\x00\x00\x00"), Unsupported, "version of the binary format"},
		{"short version", []byte("\x00asm\x01"), Malformed, "needs 4 more bytes, but only 1 remain"},

		// Sections.
		{"section 15", binaryOf([]byte{15, 0}), Malformed, "no section with number 15"},
		{"twice", binaryOf(types1, types1), Malformed, "type section: duplicate section"},
		{"order", binaryOf(memory, types1), Malformed, "after the memory section, but belongs before it"},
		{"data count after code", binaryOf(types1, section(sectionFunction, []byte{1, 0}), section(sectionCode, []byte{1, 2, 0, 0x0b}), section(sectionDataCount, []byte{0})), Malformed, "after the code section"},
		{"size beyond the end", binaryOf([]byte{sectionType, 100, 1}), Malformed, "needs 100 more bytes, but only 1 remain"},
		{"size too large", binaryOf(section(sectionType, []byte{1, 0x60, 0, 0, 0})), Malformed, "section's size is 5 bytes, but its contents take 4"},
		{"size too small", binaryOf([]byte{sectionType, 3, 1, 0x60, 0, 0}), Malformed, "type section"},
		{"custom beyond the end", binaryOf([]byte{sectionCustom, 0xff, 0xff, 0xff, 0xff, 0x0f}), Malformed, "4,294,967,295 more bytes"},
		{"no code", binaryOf(types1, section(sectionFunction, []byte{1, 0})), Malformed, "1 functions are declared, but there are bodies for 0"},
		{"no functions", binaryOf(types1, section(sectionCode, []byte{1, 2, 0, 0x0b})), Malformed, "0 functions are declared, but there are bodies for 1"},
		{"data count differs", binaryOf(section(sectionDataCount, []byte{1})), Malformed, "announces 1 data segments, but there are 0"},

		// Numbers.
		{"overlong", binaryOf([]byte{sectionType, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00}), Malformed, "more than the 5 bytes"},
		{"33 bits", binaryOf([]byte{sectionType, 0x81, 0x80, 0x80, 0x80, 0x10}), Malformed, "does not fit in 32 bits"},
		{"negative i32", withBody(9, 0, 0x41, 0xff, 0xff, 0xff, 0xff, 0x4f, 0x1a, 0x0b), Malformed, "i32.const does not fit in 32 bits"},
		{"overlong i64", withBody(15, 0, 0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x1a, 0x0b), Malformed, "i64.const"},

		// Counts.
		{"2^32-1 locals", withBody(9, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b, 0), OverLimit, "function 0: 4,294,967,295 locals, more than the limit of 3,000"},
		{"2^32 locals in groups", withBody(16, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b, 0, 0), OverLimit, "8,589,934,590 locals"},
		{"2^32-1 groups", withBody(6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b), OverLimit, "groups of locals"},
		{"2^32-1 targets", withBody(11, 0, 0x41, 0, 0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0x0b), Malformed, "4,294,967,295 branch targets are announced"},
		{"table of 2^27", binaryOf(section(sectionTable, []byte{1, 0x70, 0}, leb(1<<27))), OverLimit, "134,217,728 table entries, more than the limit of 65,536"},
		{"40 tables", binaryOf(section(sectionTable, times(40, 0x70, 0, 1))), OverLimit, "40 tables, more than the limit of 4"},
		{"memory of 4 GiB", binaryOf(section(sectionMemory, []byte{1, 0}, leb(1<<16))), OverLimit, "65,536 pages"},
		{"memory beyond 4 GiB", binaryOf(section(sectionMemory, []byte{1, 0}, leb(1<<16+1))), Invalid, "65,537"},
		{"maximum beyond 4 GiB", binaryOf(section(sectionMemory, []byte{1, 1, 0}, leb(1<<16+1))), Invalid, "65,537"},
		{"maximum below minimum", binaryOf(section(sectionMemory, []byte{1, 1, 2, 1})), Invalid, "maximum of a memory is 1, less than its minimum of 2"},
		{"data of 4 GiB", binaryOf(memory, section(sectionData, []byte{1, 1}, limit)), Malformed, "a data segment needs 4,294,967,295 more bytes"},

		// Names.
		{"NUL in a name", binaryOf(memory, section(sectionExport, []byte{1, 2, 'a', 0, 2, 0})), Invalid, "control character"},
		{"escape in a name", binaryOf(memory, section(sectionExport, []byte{1, 2, 'a', 0x1b, 2, 0})), Invalid, "control character"},
		{"name of 1 MB", binaryOf(memory, section(sectionExport, []byte{1}, leb(1<<20), bytes.Repeat([]byte{'x'}, 1<<20), []byte{2, 0})), OverLimit, "1,048,576 bytes in the name of an export"},
		{"name not UTF-8", binaryOf(memory, section(sectionExport, []byte{1, 1, 0xff, 2, 0})), Malformed, `not valid UTF-8: "\xff"`},
		{"same export twice", binaryOf(memory, section(sectionExport, times(2, 1, 'm', 2, 0))), Invalid, `duplicate export "m"`},
		{"import without module", binaryOf(section(sectionImport, times(1, 0, 1, 'g', 3, 0x7f, 0))), Invalid, "empty module name"},

		// Indices.
		{"type of a function", binaryOf(types1, section(sectionFunction, []byte{1, 1})), Invalid, "type 1 does not exist, the module has 1"},
		{"type of an import", binaryOf(section(sectionImport, times(1, 1, 'm', 1, 'f', 0, 0))), Invalid, "type 0 does not exist"},
		{"exported function", binaryOf(section(sectionExport, times(1, 1, 'f', 0, 0))), Invalid, "function 0 does not exist"},
		{"exported table", binaryOf(section(sectionExport, times(1, 1, 't', 1, 0))), Invalid, "table 0 does not exist"},
		{"exported memory", binaryOf(section(sectionExport, times(1, 1, 'm', 2, 0))), Invalid, "memory 0 does not exist"},
		{"exported global", binaryOf(section(sectionExport, times(1, 1, 'g', 3, 0))), Invalid, "global 0 does not exist"},
		{"start", binaryOf(section(sectionStart, []byte{0})), Invalid, "function 0 does not exist"},
		{"type of start", binaryOf(section(sectionType, []byte{1, 0x60, 1, 0x7f, 0}), section(sectionFunction, []byte{1, 0}), section(sectionStart, []byte{0})), Invalid, "start function 0 is of type (i32) -> (), want () -> ()"},
		{"element's function", binaryOf(table1, section(sectionElement, []byte{1, 0, 0x41, 0, 0x0b, 1, 0})), Invalid, "function 0 does not exist"},
		{"element's table", binaryOf(section(sectionElement, []byte{1, 0, 0x41, 0, 0x0b, 0})), Invalid, "table 0 does not exist"},
		{"element's type", binaryOf(section(sectionTable, []byte{1, 0x6f, 0, 1}), section(sectionElement, []byte{1, 0, 0x41, 0, 0x0b, 0})), Invalid, "element segment of funcref is for a table of externref"},
		{"data without memory", binaryOf(section(sectionData, []byte{1, 0, 0x41, 0, 0x0b, 0})), Invalid, "data segment 0 is for a memory, but the module has none"},
		{"constant of another type", binaryOf(section(sectionGlobal, []byte{1, 0x7f, 0, 0x42, 0, 0x0b})), Invalid, "has type i64, want i32"},
		{"constant of two", binaryOf(section(sectionGlobal, []byte{1, 0x7f, 0, 0x41, 0, 0xd2, 0, 0x0b})), Invalid, "want one constant and end"},
		{"constant from own global", binaryOf(section(sectionGlobal, []byte{2, 0x7f, 0, 0x41, 0, 0x0b, 0x7f, 0, 0x23, 0, 0x0b})), Invalid, "may read the 0 imported ones only"},
		{"constant from mutable global", binaryOf(section(sectionImport, times(1, 1, 'm', 1, 'g', 3, 0x7f, 1)), section(sectionGlobal, []byte{1, 0x7f, 0, 0x23, 0, 0x0b})), Invalid, "global 0, which is mutable"},

		// Bodies.
		{"no end", withBody(2, 0, 0x01), Malformed, "stops before the end of 1 blocks"},
		{"block without end", withBody(4, 0, 0x02, 0x40, 0x0b), Malformed, "stops before the end"},
		{"code after end", withBody(3, 0, 0x0b, 0x0b), Malformed, "after the function's end"},
		{"else without if", withBody(3, 0, 0x05, 0x0b), Malformed, "else does not belong to an if"},
		{"else twice", oneFunction(0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0b), Malformed, "else does not belong to an if"},
		{"call", oneFunction(0x10, 1), Invalid, "function 0: function 1 does not exist"},
		{"call_indirect's type", oneFunction(0x11, 1, 0), Invalid, "type 1 does not exist"},
		{"call_indirect's table", oneFunction(0x11, 0, 1), Invalid, "table 1 does not exist"},
		{"local", oneFunction(0x20, 0), Invalid, "local 0 does not exist, the function has 0"},
		{"global", oneFunction(0x23, 1), Invalid, "global 1 does not exist"},
		{"set of a constant", binaryOf(types1, section(sectionFunction, []byte{1, 0}), section(sectionGlobal, []byte{1, 0x7f, 0, 0x41, 0, 0x0b}), section(sectionCode, []byte{1, 6, 0, 0x41, 0, 0x24, 0, 0x0b})), Invalid, "global 0, which is not mutable"},
		{"label", oneFunction(0x0c, 1), Invalid, "label 1, but only 1 blocks are open"},
		{"label of br_table", oneFunction(0x41, 0, 0x0e, 1, 0, 1), Invalid, "label 1, but only 1"},
		{"block's type", oneFunction(0x02, 1, 0x0b), Invalid, "type 1 does not exist"},
		{"block's negative type", oneFunction(0x02, 0x41, 0x0b), Malformed, "block type"},
		{"alignment", oneFunction(0x41, 0, 0x28, 3, 0, 0x1a), Invalid, "alignment of i32.load is 2^3, at most 2^2"},
		{"vector's alignment", oneFunction(0x41, 0, 0xfd, 0, 5, 0, 0x1a), Invalid, "alignment of v128.load is 2^5"},
		{"lane", oneFunction(0xfd, 0x1b, 4), Invalid, "i32x4.extract_lane has no lane 4"},
		{"lane of shuffle", oneFunction(append([]byte{0xfd, 0x0d, 32}, make([]byte, 15)...)...), Invalid, "no lane 32"},
		{"lane of load", oneFunction(0xfd, 0x54, 0, 0, 16), Invalid, "v128.load8_lane has no lane 16"},
		{"no memory", withBody(7, 0, 0x41, 0, 0x28, 0, 0, 0x0b), Invalid, "i32.load needs a memory"},
		{"no memory to fill", withBody(5, 0, 0xfc, 0x0b, 0, 0x0b), Invalid, "memory.fill needs a memory"},
		{"no table", withBody(4, 0, 0x25, 0, 0x0b), Invalid, "table 0 does not exist"},
		{"no data count", oneFunction(0xfc, 0x08, 0, 0), Invalid, "memory.init needs a data count section"},
		{"no element segment", oneFunction(0xfc, 0x0c, 0, 0), Invalid, "element segment 0 does not exist"},
		{"ref.func of nothing", oneFunction(0xd2, 0, 0x1a), Invalid, "which no export, global or element segment names"},
		{"select of two types", oneFunction(0x1c, 2, 0x7f, 0x7f), Invalid, "select has 2 types"},
		{"opcode", oneFunction(0x27), Malformed, "no instruction with opcode 0x27"},
		{"vector opcode", oneFunction(0xfd, 0x9a, 0x01), Malformed, "no instruction with opcode 0xfd 0x9a"},
		{"misc opcode", oneFunction(0xfc, 0x30), Malformed, "no instruction with opcode 0xfc 0x30"},

		// Shapes that cost a compiler seconds or gigabytes.
		{"40,000 nested blocks", oneFunction(nested(40_000, 0x02, 0x40)...), OverLimit, "4,001 nested blocks"},
		{"1 MB function", oneFunction(make([]byte, 1<<20)...), OverLimit, "1,048,578 bytes, more than the limit of 262,144 per function body"},
		{"br_table 200 x 5,000", oneFunction(bytes.Repeat(append(append([]byte{0x41, 0, 0x0e}, times(5000, 0)...), 0), 40)...), OverLimit, "5,000 branch targets"},
		{"br_table 100 x 4,000", oneFunction(bytes.Repeat(append(append([]byte{0x41, 0, 0x0e}, times(4000, 0)...), 0), 60)...), OverLimit, "basic blocks"},
		{"1,000 functions of 50,000 locals", manyFunctions(1000, times(1, 0xd0, 0x86, 0x03, 0x7f)), OverLimit, "50,000 locals"},
		{"20,000 functions of 90 parameters", binaryOf(section(sectionType, []byte{1, 0x60}, times(90, 0x7f), []byte{0}), section(sectionFunction, times(20_000, 0)), section(sectionCode, times(20_000, 2, 0, 0x0b))), OverLimit, "locals, more than the limit of 200,000 for all functions"},
		{"100,000 empty functions", manyFunctions(100_000, []byte{0}), OverLimit, "100,000 functions, more than the limit of 20,000"},
		{"custom section of 50 MB", binaryOf(section(sectionCustom, make([]byte, 50<<20))), OverLimit, "bytes, more than the limit of 16,777,216 per module"},
		{"50,000 ifs", oneFunction(bytes.Repeat([]byte{0x41, 0, 0x04, 0x40, 0x0b}, 50_000)...), OverLimit, "basic blocks, more than the limit of 12,000 per function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.module, DefaultLimits())
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.kind, refusal.Kind, refusal)
			require.Contains(t, err.Error(), c.want)
			require.LessOrEqual(t, refusal.Offset, len(c.module))
			require.NotEmpty(t, refusal.Thing)
			require.NotEmpty(t, refusal.Section)
		})
	}
}

func manyFunctions(n int, locals []byte) []byte {
	return binaryOf(types1, section(sectionFunction, times(n, 0)), section(sectionCode, times(n, bodyOf(locals, 0x0b)...)))
}

func TestUnsupportedFeatures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		feature string
		module  []byte
	}{
		{"threads", oneFunction(0xfe, 0x03, 0)},
		{"threads", binaryOf(section(sectionMemory, []byte{1, 3, 1, 1}))},
		{"exception handling", oneFunction(0x08, 0)},
		{"exception handling", oneFunction(0x1f, 0x40, 0)},
		{"exception handling", binaryOf([]byte{13, 0})},
		{"exception handling", binaryOf(section(sectionImport, times(1, 1, 'm', 1, 't', 4, 0, 0)))},
		{"tail calls", oneFunction(0x12, 0)},
		{"tail calls", oneFunction(0x13, 0, 0)},
		{"64-bit memory", binaryOf(section(sectionMemory, []byte{1, 4, 1}))},
		{"64-bit memory", binaryOf(section(sectionTable, []byte{1, 0x70, 4, 1}))},
		{"garbage collection", binaryOf(section(sectionType, []byte{1, 0x5f, 1, 0x7f, 0}))},
		{"garbage collection", binaryOf(section(sectionType, []byte{1, 0x60, 1, 0x6e, 0}))},
		{"garbage collection", oneFunction(0xfb, 0)},
		{"typed function references", oneFunction(0x14, 0)},
		{"typed function references", binaryOf(section(sectionType, []byte{1, 0x60, 1, 0x63, 0x70, 0}))},
		{"typed function references", binaryOf(section(sectionTable, []byte{1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b}))},
		{"multiple memories", binaryOf(section(sectionMemory, []byte{2, 0, 1, 0, 1}))},
		{"multiple memories", oneFunction(0x3f, 1)},
		{"multiple memories", oneFunction(0x41, 0, 0x28, 0x42, 1, 0)},
		{"multiple memories", binaryOf(memory, section(sectionData, []byte{1, 2, 1, 0x41, 0, 0x0b, 0}))},
		{"relaxed vector instructions", oneFunction(0xfd, 0x80, 0x02)},
		{"extended constant expressions", binaryOf(section(sectionGlobal, []byte{1, 0x7f, 0, 0x41, 0, 0x41, 0, 0x6a, 0x0b}))},
		{"string references", binaryOf([]byte{14, 0})},
		{"wide arithmetic", oneFunction(0xfc, 0x13)},
		{"custom page sizes", binaryOf(section(sectionMemory, []byte{1, 8, 1, 0}))},
	} {
		t.Run(c.feature, func(t *testing.T) {
			_, err := Decode(c.module, DefaultLimits())
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, Unsupported, refusal.Kind, refusal)
			require.Contains(t, refusal.Thing, c.feature)
			require.Contains(t, err.Error(), c.feature)
		})
	}
}

// TestHugeCounts checks that sections that claim vectors of up to 2^32-1 entries are
// rejected without a large allocation.
func TestHugeCounts(t *testing.T) {
	l := DefaultLimits()
	for id := byte(sectionType); id <= sectionData; id++ {
		if id == sectionStart {
			continue
		}
		for _, count := range [][]byte{limit, {0x80, 0x08}} { // 1024 is below most limits
			b := binaryOf(section(id, count))
			if id == sectionCode {
				b = binaryOf(types1, section(sectionFunction, []byte{1, 0}), section(id, count))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(b, l)
			runtime.ReadMemStats(&after)
			require.Error(t, err, "section %d", id)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), "section %d", id)
		}
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	b := binaryOf(
		section(sectionType, []byte{2, 0x60, 0, 0, 0x60, 1, 0x7f, 1, 0x7e}),
		section(sectionImport, []byte{1, 1, 'm', 1, 'g', 3, 0x7f, 0}),
		section(sectionFunction, []byte{1, 0}),
		table1, memory,
		section(sectionGlobal, []byte{1, 0x7b, 1, 0xfd, 0x0c}, make([]byte, 16), []byte{0x0b}),
		section(sectionExport, []byte{1, 1, 'f', 0, 0}),
		section(sectionStart, []byte{0}),
		section(sectionElement, []byte{1, 0, 0x23, 0, 0x0b, 1, 0}),
		section(sectionDataCount, []byte{2}),
		section(sectionCode, codeWithEverything()),
		section(sectionData, []byte{2, 1, 1, 'x', 0, 0x41, 0, 0x0b, 1, 'y'}),
	)
	_, err := Decode(b, DefaultLimits())
	require.NoError(t, err)
	whole := map[int]bool{8: true} // at section boundaries, the part before may be valid
	for n := range len(b) {
		m, err := Decode(b[:n], DefaultLimits())
		if err != nil {
			continue
		}
		whole[n] = true
		again, err := Decode(m.Encode(), DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, m.Encode(), again.Encode())
	}
	// The header, and the ends of the type and import sections.
	require.Len(t, whole, 3, fmt.Sprint(whole))
}

func codeWithEverything() []byte {
	code := []byte{
		0x41, 0, 0x0e, 1, 0, 0, // br_table
		0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0, // memory.init
		0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, // f64.const, drop
		0x02, 1, 0x0b, 0x11, 0, 0, 0x1c, 1, 0x7f, 0x1a, 0xd0, 0x70, 0x1a, 0xd2, 0, 0x1a,
		0xfd, 0x54, 0, 0, 15, 0x1a, 0x0b,
	}
	return vec(bodyOf(times(1, 1, 0x7f), code...))
}

func TestErrorPosition(t *testing.T) {
	t.Parallel()
	_, err := Decode(withBody(9, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b, 0), DefaultLimits())
	var refusal *Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "code", refusal.Section)
	require.Equal(t, 0, refusal.Function)
	require.Equal(t, "locals", refusal.Thing)
	require.Equal(t, uint64(1<<32-1), refusal.Value)
	require.Equal(t, uint64(3000), refusal.Limit)
	require.True(t, strings.HasSuffix(err.Error(), fmt.Sprintf("(offset %#x)", refusal.Offset)), err)
}
