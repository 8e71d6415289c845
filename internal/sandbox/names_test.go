package sandbox

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := readNames(guestWasm)
	require.Equal(t, "call", n.of(0), "imports have names too")
	require.Equal(t, "trap", n.of(15))
	require.Empty(t, n.of(1000))
	c := &code{facts: facts{names: n, functions: 40, shape: &shape{imports: make([]ImportInfo, 8)}}}
	require.Equal(t, "trap(i32) i32", c.frame("$16(i32) i32"), "metering adds an import")
	require.Equal(t, "call()", c.frame("$0()"))
	for _, line := range []string{"env.f(i32)", "$x()", "$15", "", "$99999999999()"} {
		require.Equal(t, line, c.frame(line))
	}
	for _, line := range []string{"$41()", "$1000()", "agent_runner_v1.refuel(i64,i64) i64"} {
		require.Empty(t, c.frame(line), "a function of metering's own")
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	section := func(entries ...byte) []byte {
		sub := append([]byte{1, byte(len(entries))}, entries...)
		custom := append([]byte("\x04name"), sub...)
		return append([]byte("\x00asm\x01\x00\x00\x00\x00"), append([]byte{byte(len(custom))}, custom...)...)
	}
	require.Equal(t, "a", readNames(section(1, 7, 1, 'a')).of(7))
	require.Equal(t, `\x1b[31m`, readNames(section(1, 7, 5, 0x1b, '[', '3', '1', 'm')).of(7))
	require.Equal(t, "a", readNames(section(0xff, 0xff, 0xff, 0xff, 0x0f, 7, 1, 'a')).of(7), "a count that is not there")
	require.Equal(t, "a", readNames(section(2, 7, 1, 'a', 7, 1, 'b')).of(7), "the same function twice")
	require.Empty(t, readNames(section(1, 7, 99, 'a')).of(7), "a length that is not there")
}

func FuzzNames(f *testing.F) {
	f.Add(guestWasm)
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x0b\x04name\x01\x04\x01\x07\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := readNames(b)
		for _, e := range n.index {
			require.LessOrEqual(t, len(n.of(e.function)), 10*maxNameBytes)
			require.False(t, bytes.ContainsRune([]byte(n.of(e.function)), '\x1b'))
		}
	})
}
