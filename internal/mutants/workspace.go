package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// A workspace builds and runs the tests of the golden cases with a fault.
type workspace struct {
	root string // the repository's folder
	work string // folder for built files
	all  bool   // run all cases, instead of only the fault's own
}

const casesPackage = "internal/conformance"

// apply returns the file that a fault changes, and its source with the fault.
func (l *workspace) apply(f *fault) (file string, src []byte, err error) {
	p, err := find(filepath.Join(l.root, filepath.Dir(f.file)), f.old)
	if err != nil {
		return "", nil, err
	}
	return p.file, p.replaced(f.new), nil
}

// redCases builds the cases with a fault, or without one if f is nil, and returns the failing cases
// in order. Unless l.all is set, it first runs only the fault's own case, and the others only if
// that case passes.
func (l *workspace) redCases(ctx context.Context, name string, f *fault) ([]string, error) {
	binary := filepath.Join(l.work, name+".test")
	args := []string{"test", "-c", "-ldflags=-s -w", "-o", binary}
	if f != nil {
		overlay, err := l.overlay(name, f)
		if err != nil {
			return nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./"+casesPackage)...)
	build.Dir = l.root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	defer os.Remove(binary)
	if f != nil && !l.all {
		red, err := l.test(ctx, binary, "/^"+f.by+"$")
		if err != nil || len(red) > 0 {
			return red, err
		}
	}
	return l.test(ctx, binary, "")
}

// test runs the cases that a pattern selects and returns the failing ones. The pattern is empty to
// select all cases, or a slash and a regular expression.
func (l *workspace) test(ctx context.Context, binary, which string) ([]string, error) {
	test := exec.CommandContext(ctx, binary, "-test.run", "^TestCases$"+which, "-test.timeout", "1m")
	test.Dir = filepath.Join(l.root, casesPackage)
	out, err := test.CombinedOutput()
	red := failed(string(out))
	var exit *exec.ExitError
	switch {
	case err == nil, errors.As(err, &exit) && len(red) > 0:
		return red, nil
	default:
		return nil, fmt.Errorf("the cases did not run: %w\n%s", err, out)
	}
}

// overlay writes a file with the fault, and an overlay with which the go command uses it instead of
// the original.
func (l *workspace) overlay(name string, f *fault) (string, error) {
	changed, mutant, err := l.apply(f)
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs(changed)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(l.work, name+".go"), filepath.Join(l.work, name+".json")
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{source: file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, mutant, 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// failedCase matches a failed case in the output of a test, including a case that hung or whose
// panic ended the test.
var failedCase = regexp.MustCompile(`(?m)(?:--- FAIL: |^\t+)TestCases/(\S+)`)

func failed(output string) []string {
	var out []string
	for _, m := range failedCase.FindAllStringSubmatch(output, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
