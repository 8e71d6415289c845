package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// binaryOf returns a module that consists of the given sections.
func binaryOf(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

// section encodes a section with its number and size.
func section(id byte, contents ...[]byte) []byte {
	all := bytes.Join(contents, nil)
	return append(append([]byte{id}, leb(len(all))...), all...)
}

// vec encodes a vector of items.
func vec(items ...[]byte) []byte {
	return append(leb(len(items)), bytes.Join(items, nil)...)
}

// times encodes a vector with n copies of an item.
func times(n int, item ...byte) []byte {
	return append(leb(n), bytes.Repeat(item, n)...)
}

func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func str(s string) []byte { return append(leb(len(s)), s...) }

// bodyOf encodes a function body with its size. locals is the encoded vector of locals.
func bodyOf(locals []byte, code ...byte) []byte {
	all := append(bytes.Clone(locals), code...)
	return append(leb(len(all)), all...)
}

// oneFunction returns a module with a memory, a table, a mutable global, and one function of
// type () -> () whose body is code followed by end.
func oneFunction(code ...byte) []byte {
	return withLocals(leb(0), code...)
}

func withLocals(locals []byte, code ...byte) []byte {
	return binaryOf(
		section(sectionType, vec([]byte{0x60, 0, 0})),
		section(sectionFunction, vec([]byte{0})),
		section(sectionTable, vec([]byte{0x70, 0, 1})),
		section(sectionMemory, vec([]byte{0, 1})),
		section(sectionGlobal, vec([]byte{0x7f, 1, 0x41, 0, 0x0b})),
		section(sectionCode, vec(bodyOf(locals, append(code, 0x0b)...))),
	)
}

// guest returns the Go program in testdata/guest as a WebAssembly module. It builds the module at the
// first call.
var guest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wasm-guest")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-buildmode=c-shared", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

func goGuest(t testing.TB) []byte {
	t.Helper()
	b, err := guest()
	require.NoError(t, err)
	return b
}

// dependency maps the module paths of wazero and of Extism's Go SDK to their directories. It
// returns an empty map if "go list" fails.
var dependency = sync.OnceValue(func() map[string]string {
	dirs := map[string]string{}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}",
		"github.com/tetratelabs/wazero", "github.com/extism/go-sdk").
		Output()
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			dirs[f[0]] = f[1]
		}
	}
	return dirs
})

// compiler returns a runtime for validating modules. It is the interpreter, which
// compiles fast.
func compiler(t testing.TB) wazero.Runtime {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { require.NoError(t, r.Close(ctx)) })
	return r
}
