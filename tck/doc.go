// Package tck is the conformance kit: golden cases that specify the behavior of a host of
// middlewares, and a runner that compares any host with them. A host is a program that implements the
// protocol of README.md ([NewProgram]).
//
// Each case is a file in the folder cases, in the format that package internal/golden documents. The
// file is named ORIGIN-ROW-what, after the row in cases/catalogue whose behavior the case tests. It
// is named own-what if the case tests a rule of this project only.
//
// All Go modules of all cases are built once, into one WebAssembly module; an entry's configuration
// selects one of them.
package tck

import (
	"embed"
	"io/fs"
	"sync"

	"github.com/agent-runner/agent-runner/internal/golden"
)

//go:embed cases/*.txtar
var files embed.FS

// loadCases loads the kit's cases, sorted by name.
var loadCases = sync.OnceValues(func() ([]*golden.Case, error) {
	folder, err := fs.Sub(files, "cases")
	if err != nil {
		return nil, err
	}
	cases, err := golden.Load(folder)
	for _, c := range cases {
		c.Strict = true
	}
	return cases, err
})
