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
	"strings"
)

// A laboratory builds the tests of the golden cases with a fault in them.
type laboratory struct {
	root string // the repository's folder
	work string // for what is built
	all  bool   // run all cases, not only the one that a fault names
}

const casesPackage = "internal/conformance"

// apply returns the file of a fault with the fault in it.
func (l *laboratory) apply(f *fault) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(l.root, f.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(b), f.old); n != 1 {
		return nil, fmt.Errorf("what it replaces stands %d times in %s, not once; fit it to the source", n, f.file)
	}
	return []byte(strings.Replace(string(b), f.old, f.new, 1)), nil
}

// redCases builds the cases with a fault, or with none, and returns those that
// fail, sorted. Of a fault the case that it names is run, and all others only
// if that one does not fail.
func (l *laboratory) redCases(ctx context.Context, name string, f *fault) ([]string, error) {
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

// test runs some of the cases, or all.
func (l *laboratory) test(ctx context.Context, binary, which string) ([]string, error) {
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

// overlay writes what the go command is told to see in the place of a file.
func (l *laboratory) overlay(name string, f *fault) (string, error) {
	mutant, err := l.apply(f)
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs(filepath.Join(l.root, f.file))
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

// A failed case, in what a test prints: also one that hung, or whose panic
// ended all of them.
var failedCase = regexp.MustCompile(`(?m)(?:--- FAIL: |^\t+)TestCases/(\S+)`)

func failed(output string) []string {
	var out []string
	for _, m := range failedCase.FindAllStringSubmatch(output, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
