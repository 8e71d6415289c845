package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// chain lists the modules of a gateway, in order, with their configurations.
var chain = []struct{ name, config string }{
	{"redact", "{}"}, {"tool-policy", "{rules: [{tools: [rm], action: deny}]}"}, {"sentences", "{}"},
}

// A build is a way to build the modules of the chain.
type build struct {
	name   string // of the language, in tables
	folder string // of the sources, below that of the module
	suffix string // of the files' names
}

var builds = []build{
	{"Go", ".", ".wasm"}, {"TinyGo", ".", "-tinygo.wasm"}, {"C", "c", "-c.wasm"}, {"TypeScript", ".", ".ts"},
}

// modules returns the entries of a route with the chain's modules. It builds those that "make examples" does not.
func (c *bench) modules(ctx context.Context, b *build) (entries string, err error) {
	for _, m := range chain {
		source := filepath.Join(c.root, "examples", "wasm-middlewares", m.name)
		path := filepath.Join(c.built, m.name+b.suffix)
		switch b.suffix {
		case ".wasm":
		case ".ts":
			path = filepath.Join(source, m.name+b.suffix)
		default:
			if c.reuse {
				break
			}
			err = compile(ctx, c.root, filepath.Join(source, b.folder), path, b.suffix == "-tinygo.wasm")
		}
		if err != nil {
			return "", err
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err != nil {
			return "", err
		}
		entries += fmt.Sprintf("{module: %q, config: %s, limits: {timeout: 30s}}, ", path, m.config)
	}
	return entries, nil
}

// compile builds the module in a folder of sources as the file path.
func compile(ctx context.Context, root, folder, path string, tiny bool) error {
	p, err := toolchain.Find(folder)
	if err != nil {
		return err
	}
	if tiny {
		p.TinyGo = guestbuild.TinyGoCommand(root)
	}
	return p.Build(ctx, path)
}

// isMissing reports whether err means that a compiler is not installed.
func isMissing(err error) bool {
	_, ok := errors.AsType[*toolchain.MissingError](err)
	return ok
}
