package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// others lists the builds of the five middlewares by compilers other than Go's. Each folder is
// relative to guests/five.
var others = []struct{ folder, name, language string }{
	{"c", "c", "C"},
	{"rust", "rust", "Rust"},
	{".", "tinygo", "TinyGo"},
}

// otherLanguages builds the five middlewares in other languages into the folder built, with the
// toolchains of "agent-runner module build", and returns the module files. A script is its own
// module. root is the folder of the repository. The result missing has a line for each language
// whose toolchain is not installed.
func otherLanguages(ctx context.Context, root, built string) (files []string, missing string, err error) {
	five := filepath.Join(root, "bench", "guests", "five")
	for _, o := range others {
		p, err := toolchain.Find(filepath.Join(five, o.folder))
		if err != nil {
			return nil, "", err
		}
		p.Cache = filepath.Join(root, "build", "rust", "five")
		if o.name == "tinygo" {
			p.TinyGo = guestbuild.TinyGoCommand(root)
		}
		path := filepath.Join(built, "five-"+o.name+".wasm")
		err = p.Build(ctx, path)
		var tool *toolchain.MissingError
		switch {
		case errors.As(err, &tool):
			missing += fmt.Sprintf(
				"There is no row of %s guests, because the machine had no toolchain for them: %v.\n",
				o.language,
				tool,
			)
		case err != nil:
			return nil, "", err
		default:
			files = append(files, path)
		}
	}
	return append(files, filepath.Join(five, "five.ts")), missing, nil
}

// sizes writes the sizes of the guests that are Go programs.
func sizes(w *bytes.Buffer, built string) error {
	w.WriteString("\nThe guests that are Go programs:")
	for i, name := range []string{"codec.wasm", "five.wasm", "five-extism.wasm", "look.wasm"} {
		f, err := os.Stat(filepath.Join(built, name))
		if err != nil {
			return err
		}
		if i > 0 {
			w.WriteByte(',')
		}
		fmt.Fprintf(w, " %s %.1f MB", name, float64(f.Size())/1e6)
	}
	w.WriteString(".\n")
	return nil
}
