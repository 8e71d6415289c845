package compile

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// TestNames checks that stack traces have the names and indexes of the original module.
func TestNames(t *testing.T) {
	t.Parallel()
	n := readNames(guest(t))
	require.Equal(t, "call", n.Function(0), "imports have names too")
	require.Equal(t, "trap", n.Function(15))
	require.Equal(t, "$1000", n.Function(1000))
	f := &Facts{Names: n, functions: 40, Outline: &verify.Outline{Imports: make([]verify.ImportInfo, 8)}}
	for line, want := range map[string][2]string{
		"$16(i32) i32":       {"trap", "(i32) i32"}, // metering adds an import
		"$16(i32) (i32,i64)": {"trap", "(i32) (i32,i64)"},
		"$0()":               {"call", "()"},
		"env.f(i32)":         {"env.f", "(i32)"},
		"$x()":               {"$x", "()"},
		"$15":                {"$15", ""},
		"":                   {"", ""},
		"$99999999999()":     {"$99999999999", "()"},
		// Functions that metering added.
		"$41()":                               {"", ""},
		"$1000()":                             {"", ""},
		"agent_runner_v1.refuel(i64,i64) i64": {"", ""},
	} {
		name, signature := f.Frame(line)
		require.Equal(t, want, [2]string{name, signature}, line)
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	section := func(entries ...byte) []byte {
		sub := append([]byte{1, byte(len(entries))}, entries...)
		custom := append([]byte("\x04name"), sub...)
		return append([]byte("\x00asm\x01\x00\x00\x00\x00"), append([]byte{byte(len(custom))}, custom...)...)
	}
	require.Equal(t, "a", readNames(section(1, 7, 1, 'a')).Function(7))
	require.Equal(t, `\x1b[31m`, readNames(section(1, 7, 5, 0x1b, '[', '3', '1', 'm')).Function(7))
	require.Equal(t, "a", readNames(section(0xff, 0xff, 0xff, 0xff, 0x0f, 7, 1, 'a')).Function(7),
		"a count beyond the end")
	require.Equal(t, "a", readNames(section(2, 7, 1, 'a', 7, 1, 'b')).Function(7), "the same function twice")
	require.Equal(t, "$7", readNames(section(1, 7, 99, 'a')).Function(7), "a length beyond the end")
}

func FuzzNames(f *testing.F) {
	f.Add(guest(f))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x0b\x04name\x01\x04\x01\x07\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := readNames(b)
		for _, e := range n.index {
			require.LessOrEqual(t, len(n.Function(e.function)), 10*maxMangledBytes)
			require.False(t, bytes.ContainsRune([]byte(n.Function(e.function)), '\x1b'))
		}
	})
}

// TestReadableNames checks that names of Rust and C++ are demangled, and that a name that is not well
// formed remains.
func TestReadableNames(t *testing.T) {
	t.Parallel()
	names := []string{"_ZN5guard6decide17h0f5d1c2b3a495867E", "main.run", "_Z4callv", "_ZZZ\x1b", "_RNvC5guard4Gate"}
	functions := []byte{byte(len(names))}
	for i, name := range names {
		functions = append(append(functions, byte(i), byte(len(name))), name...)
	}
	section := append([]byte("\x04name\x01"), byte(len(functions)))
	section = append(section, functions...)
	b := append(append(module(nil), 0, byte(len(section))), section...)
	for _, dir := range []string{"", t.TempDir()} {
		m := compile(t, newCompiler(t, Options{CacheDir: dir, Children: newPool(t, child.Options{})}), b)
		got := make([]string, len(names))
		for i := range got {
			got[i] = m.Names.Function(uint32(i))
		}
		require.Equal(t, []string{"guard::decide", "main.run", "call", `_ZZZ\x1b`, "guard::Gate"}, got)
	}
}

// TestNamesAfterAFailure checks that a failure that does not depend on the names fails the compilation,
// which would otherwise cache the mangled names.
func TestNamesAfterAFailure(t *testing.T) {
	t.Parallel()
	pool := newPool(t, child.Options{})
	c := newCompiler(t, Options{Children: pool})
	n := &Names{}
	n.add(0, []byte("_Z4callv"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.readable(ctx, "", t.TempDir(), n)
	require.ErrorIs(t, err, context.Canceled)
	n, err = c.readable(t.Context(), "", t.TempDir(), n)
	require.NoError(t, err)
	require.Equal(t, "call", n.Function(0))
}
