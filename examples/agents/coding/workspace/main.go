// Command workspace is an MCP server for the coding agent: it lists, reads and writes the
// files of a Go module, and runs its tests.
//
//	workspace [-busy] FOLDER
//
// Its file tools have the same names as those of the reference file system server, which can be
// used instead. With -busy the first test run fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	busy := flag.Bool("busy", false, "the tests cannot be run the first time")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: workspace [-busy] FOLDER")
		os.Exit(2)
	}
	if err := serve(context.Background(), flag.Arg(0), *busy); err != nil {
		fmt.Fprintln(os.Stderr, "workspace:", err)
		os.Exit(1)
	}
}

// Limits of the tools: the size of a file that is read, and the duration of a test run.
const (
	maxFile = 256 << 10 // bytes
	maxTest = time.Minute
)

// A workspace is a folder that paths cannot escape.
type workspace struct {
	root *os.Root
	dir  string
	busy atomic.Bool
}

func serve(ctx context.Context, dir string, busy bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &workspace{root: root, dir: dir}
	w.busy.Store(busy)
	s := mcp.NewServer(&mcp.Implementation{Name: "workspace", Version: "1"}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	add(s, &mcp.Tool{Name: "list_directory", Description: "Lists a folder and all below it.", Annotations: reads}, w.list)
	add(s, &mcp.Tool{Name: "read_text_file", Description: "Reads a file.", Annotations: reads}, w.read)
	add(s, &mcp.Tool{Name: "write_file", Description: "Writes a file, in the place of the one that is there."}, w.write)
	add(s, &mcp.Tool{Name: "run_tests", Description: "Runs the tests of the module."}, w.test)
	return s.Run(ctx, &mcp.StdioTransport{})
}

// add registers a tool that calls the function do and returns its text.
func add[In any](s *mcp.Server, t *mcp.Tool, do func(context.Context, In) (string, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := do(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

type place struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
}

// list returns the paths of all files below a folder, one per line.
func (w *workspace) list(_ context.Context, in place) (string, error) {
	var lines []string
	err := fs.WalkDir(
		w.root.FS(),
		filepath.ToSlash(filepath.Clean(in.Path)),
		func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				lines = append(lines, path)
			}
			return err
		},
	)
	return strings.Join(lines, "\n"), err
}

// read returns the contents of a file. It fails if the file is larger than maxFile bytes.
func (w *workspace) read(_ context.Context, in place) (string, error) {
	f, err := w.root.Open(in.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", in.Path, maxFile)
	}
	return string(b), err
}

type text struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	Content string `json:"content" jsonschema:"all of the file"`
}

// write creates or replaces a file, and returns a confirmation.
func (w *workspace) write(_ context.Context, in text) (string, error) {
	if err := w.root.WriteFile(in.Path, []byte(in.Content), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("Wrote %d bytes to %s.", len(in.Content), in.Path), nil
}

// times matches the parts of test output that differ between runs.
var times = regexp.MustCompile(`\s*\(?(\(cached\)|\b[0-9.]+s\b)\)?`)

// test runs the tests of the module and returns their output, whether they pass or fail. It fails
// if they cannot be run.
func (w *workspace) test(ctx context.Context, _ struct{}) (string, error) {
	if w.busy.Swap(false) {
		return "", errors.New("another process runs the tests: the workspace is locked")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTest)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "./...")
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		return "", fmt.Errorf("run the tests: %w", err)
	}
	return times.ReplaceAllString(string(out), ""), nil
}
