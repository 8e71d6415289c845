package abisource

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources reads the types of two packages with the given source texts.
func sources(t *testing.T, abi, contract string) *Source {
	dirs := make([]string, 2)
	for i, text := range []string{"package abi\n" + abi, "package contract\n" + contract} {
		dirs[i] = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dirs[i], "types.go"), []byte(text), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dirs[i], "types_test.go"), []byte("package x\ntype Test int\n"), 0o644))
	}
	s, err := Read(dirs[0], dirs[1])
	require.NoError(t, err)
	return s
}

func TestRead(t *testing.T) {
	t.Parallel()
	s := sources(t, `
type JSON []byte
type Code string
// Common is
// first. See [Call.Name].
type Common struct {
	// Run is the run.
	Run string `+"`json:\"run\"`"+`
}
`, `
import "example.com/abi"
type Call struct {
	abi, hidden int
	Codes []abi.Code `+"`json:\"codes,omitempty\"`"+` // Codes of a [Call]
	Next *Call
	Raw map[string]abi.JSON `+"`json:\",omitzero\"`"+`
	Unknown int `+"`json:\"-\"`"+`
}
`)
	require.Nil(t, s.Decl("Test"))
	require.Equal(t, "Common is first. See Call.Name.", s.Decl("Common").Doc)
	call := s.Decl("Call")
	require.Equal(t, "contract.Call", call.Qualified())
	require.True(t, call.Open())
	require.False(t, s.Decl("Common").Open())
	code := &Type{Kind: String, Name: "Code", Go: "abi.Code"}
	require.Equal(t, code, s.Decl("Code").Type())
	node := &Type{Kind: Struct, Name: "Call", Go: "contract.Call"}
	require.Equal(t, []Field{
		{"Codes", "Codes", "codes", "omitempty", "codes of a Call", &Type{Slice, "", "[]abi.Code", code}, false},
		{"Next", "Next", "Next", "", "", &Type{Pointer, "", "*contract.Call", node}, false},
		{
			"Raw",
			"Raw",
			"Raw",
			"omitzero",
			"",
			&Type{Map, "", "map[string]abi.JSON", &Type{Raw, "JSON", "abi.JSON", nil}},
			false,
		},
	}, call.Fields())
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	s := sources(t, `
type Common struct { Run string }
type Input struct { Common; N int64 }
`, "")
	require.True(t, s.Decl("Input").Fields()[0].Embedded)
	flat := s.Decl("Input").Flat()
	require.Equal(t, []string{"Common.Run", "N"}, []string{flat[0].Path, flat[1].Path})
}

func TestReplace(t *testing.T) {
	t.Parallel()
	text, err := Replace("a\n// begin x\nold\n// end x\nb\n", "begin x", "end x", "new\n")
	require.NoError(t, err)
	require.Equal(t, "a\n// begin x\nnew\n// end x\nb\n", text)
	for _, file := range []string{"", "begin x\n", "end x\nbegin x\n"} {
		_, err = Replace(file, "begin x", "end x", "new")
		require.ErrorContains(t, err, "missing", file)
	}
}
