package wasm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// specLimits returns limits for the specification's test suite, which exceeds what
// toolchains generate.
func specLimits() Limits {
	l := DefaultLimits()
	l.Params, l.Results, l.Tables = 1000, 1000, 100
	l.TableEntries, l.MemoryPages = 1<<32, 1<<16
	l.BranchTargets, l.Blocks = 100_000, 100_000
	return l
}

// toolchainModules returns modules of several toolchains: this test's own Go guest, and
// the test modules of the Extism Go SDK (Go, TinyGo, Rust, C, Haskell, AssemblyScript).
func toolchainModules(t testing.TB) map[string][]byte {
	modules := map[string][]byte{"guest.wasm": goGuest(t)}
	files, err := filepath.Glob(filepath.Join(dependency()["github.com/extism/go-sdk"], "wasm", "*.wasm"))
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		modules[filepath.Base(f)] = b
	}
	return modules
}

func TestToolchainModules(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles large or many modules")
	}
	t.Parallel()
	r := compiler(t)
	for name, b := range toolchainModules(t) {
		t.Run(name, func(t *testing.T) {
			m, err := Decode(b, DefaultLimits())
			require.NoError(t, err)
			requireCompiles(t, r, m.Encode())
			requireSame(t, m)
		})
	}
}

func requireCompiles(t *testing.T, r wazero.Runtime, b []byte) {
	t.Helper()
	compiled, err := r.CompileModule(t.Context(), b)
	require.NoError(t, err)
	require.NoError(t, compiled.Close(t.Context()))
}

// requireSame checks that a module is the same after it is encoded and decoded again, except for
// the offsets of its code.
func requireSame(t *testing.T, m *Module) {
	t.Helper()
	again, err := Decode(m.Encode(), specLimits())
	require.NoError(t, err)
	without := *m
	without.Code = append([]Code(nil), m.Code...)
	for _, code := range [][]Code{without.Code, again.Code} {
		for i := range code {
			code[i].Offset = 0
		}
	}
	require.Equal(t, &without, again)
}

// specCommand is a step of the specification's test suite that has a module.
type specCommand struct {
	Type, Filename, Text string
	Line                 int
}

// specSuite calls f for each step of the WebAssembly 2.0 suite, which the wazero module
// includes in binary form.
func specSuite(t *testing.T, f func(t *testing.T, c specCommand, module []byte)) {
	dir := filepath.Join(dependency()["github.com/tetratelabs/wazero"], "internal/integration_test/spectest/v2/testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("the wazero module has no test data here (it is vendored?)")
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var suite struct{ Commands []specCommand }
		require.NoError(t, json.Unmarshal(raw, &suite))
		for _, c := range suite.Commands {
			if !strings.HasSuffix(c.Filename, ".wasm") {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, c.Filename))
			require.NoError(t, err)
			f(t, c, b)
		}
	}
}

func TestSpecificationSuite(t *testing.T) {
	t.Parallel()
	r := compiler(t)
	accepted, refused := 0, 0
	specSuite(t, func(t *testing.T, c specCommand, b []byte) {
		m, err := Decode(b, specLimits())
		switch {
		case c.Filename == "names.2.wasm":
			require.ErrorContains(t, err, "control character") // stricter on purpose
		case c.Type == "module", c.Type == "assert_uninstantiable", c.Type == "assert_unlinkable":
			require.NoError(t, err, c.Filename)
			requireCompiles(t, r, m.Encode())
			requireSame(t, m)
			accepted++
		case err != nil:
			refused++
		case c.Text == "type mismatch", c.Text == "invalid result arity":
			// The compiler checks operand types.
			_, err := r.CompileModule(t.Context(), m.Encode())
			require.Error(t, err, c.Filename)
		default:
			// The error is in a custom section, which Decode skips.
			requireCompiles(t, r, m.Encode())
			require.Contains(
				t,
				[]string{"custom", "utf8-custom-section-id", "binary-leb128"},
				strings.SplitN(c.Filename, ".", 2)[0],
				"%s: %s",
				c.Filename,
				c.Text,
			)
		}
	})
	require.Greater(t, accepted, 500)
	require.Greater(t, refused, 300)
}

func BenchmarkDecode(b *testing.B) {
	module := goGuest(b)
	b.SetBytes(int64(len(module)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(module, DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	m, err := Decode(goGuest(b), DefaultLimits())
	require.NoError(b, err)
	b.SetBytes(int64(len(m.Encode())))
	b.ReportAllocs()
	for b.Loop() {
		m.Encode()
	}
}
