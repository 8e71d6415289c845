package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const installTinyGo = "https://tinygo.org/getting-started/install, version 0.41 or later"

// TinyGoDirective is a line that makes TinyGo build a module. It stands before the package clause of
// one of the module's Go files, like Go's own directives.
const TinyGoDirective = "//agentrunner:tinygo"

// TinyGo is the name of TinyGo's command.
const TinyGo = "tinygo"

// CheckTinyGo returns a [*MissingError] if TinyGo is not in PATH.
func CheckTinyGo() error {
	_, err := find(installTinyGo, TinyGo)
	return err
}

// asksForTinyGo returns the name of the first Go file in a folder that has the directive, or "".
func asksForTinyGo(dir string) string {
	files, _ := os.ReadDir(dir) // the compiler reports an error
	for _, file := range files {
		name := file.Name()
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && hasDirective(string(text)) {
			return name
		}
	}
	return ""
}

// hasDirective reports whether a Go file has the directive before its package clause.
func hasDirective(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "package ") {
			return false
		}
		if strings.TrimSpace(line) == TinyGoDirective {
			return true
		}
	}
	return false
}

// buildGo compiles a Go module. If that fails without a go.sum, it creates one and tries
// again.
func buildGo(ctx context.Context, p *Project, out string) error {
	tool, err := find("https://go.dev/dl, version 1.26 or later", "go")
	if err == nil && p.TinyGo != "" {
		install := installTinyGo
		if p.asks != "" {
			install += fmt.Sprintf("; or remove the line %s from %s, to build with Go", TinyGoDirective, p.asks)
		}
		p.TinyGo, err = find(install, p.TinyGo)
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
	case p.TinyGo != "" && p.Strip:
		strip := []string{"-no-debug", "-ldflags=-extldflags '" + tinyGoStack + "'"}
		return p.run(ctx, nil, p.TinyGo, slices.Concat(tinyGo, strip, args)...)
	case p.TinyGo != "":
		strip := "-ldflags=-extldflags '" + tinyGoStack + " --strip-debug'"
		return p.run(ctx, nil, p.TinyGo, slices.Concat(tinyGo, []string{strip}, args)...)
	}
	strip := "-ldflags=-w"
	if p.Strip {
		strip = "-ldflags=-s -w"
	}
	return p.run(
		ctx,
		[]string{"GOOS=wasip1", "GOARCH=wasm"},
		tool,
		append([]string{"build", "-buildmode=c-shared", strip}, args...)...)
}

// tinyGo lists the arguments of TinyGo. Guests need no scheduler, since they wait only in host
// calls. Allocations live until the SDK resets memory, which is faster than collecting garbage.
var tinyGo = []string{
	"build", "-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-gc=leaking", "-opt=2",
}

// tinyGoStack is the linker's option for the size of the stack. The default of 64 KB is too small for
// regular expressions.
const tinyGoStack = "-z stack-size=1048576"

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
