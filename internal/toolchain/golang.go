package toolchain

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
)

const installTinyGo = "https://tinygo.org/getting-started/install, version 0.41 or later"

// buildGo compiles a Go module. If that fails and there is no go.sum, it creates one and tries
// again.
func buildGo(ctx context.Context, p *Project, out string) error {
	tool, err := find("https://go.dev/dl, version 1.26 or later", "go")
	if err == nil && p.TinyGo != "" {
		p.TinyGo, err = find(installTinyGo, p.TinyGo)
	}
	switch {
	case err != nil:
		return err
	case !inGoModule(p.Dir):
		return errors.New(
			"there is no go.mod in the folder or above it; agent-runner module new NAME --lang go creates a project with one",
		)
	}
	build := func() error { return p.compileGo(ctx, tool, "-o", out, ".") }
	err = build()
	if err == nil || file("go.sum")(p.Dir) != "" {
		return err
	}
	// A new module has no go.sum yet, and its dependencies may have to be downloaded.
	if tidied := p.run(ctx, nil, tool, "mod", "tidy"); tidied != nil {
		return errors.Join(err, tidied)
	}
	return build()
}

// compileGo builds the module with Go's compiler or TinyGo.
func (p *Project) compileGo(ctx context.Context, tool string, args ...string) error {
	switch {
	case p.TinyGo != "" && p.Names:
		return p.run(ctx, nil, p.TinyGo, slices.Concat(tinyGo, args)...)
	case p.TinyGo != "":
		return p.run(ctx, nil, p.TinyGo, slices.Concat(tinyGo, []string{"-no-debug"}, args)...)
	}
	strip := "-ldflags=-s -w"
	if p.Names {
		strip = "-ldflags=-w"
	}
	return p.run(
		ctx,
		[]string{"GOOS=wasip1", "GOARCH=wasm"},
		tool,
		append([]string{"build", "-buildmode=c-shared", strip}, args...)...)
}

// tinyGo lists the arguments of TinyGo. Guests need no scheduler, since they wait only in host
// calls. Allocations live until the SDK resets memory, which is faster than collecting garbage. The
// linker's default stack of 64 KB is too small for regular expressions.
var tinyGo = []string{
	"build", "-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-gc=leaking", "-opt=2",
	"-ldflags=-extldflags '-z stack-size=1048576'",
}

// inGoModule reports whether a folder or one of its parents contains a go.mod.
func inGoModule(dir string) bool {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for ; file("go.mod")(abs) == ""; abs = filepath.Dir(abs) {
		if abs == filepath.Dir(abs) {
			return false
		}
	}
	return true
}
