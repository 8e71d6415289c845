// Package builtin provides local tools: the time, a calculator, and read-only file tools for
// one directory.
package builtin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

// The names of the tools.
const (
	nameTime        = "time"
	nameCalculator  = "calculator"
	nameListFiles   = "list_files"
	nameReadFile    = "read_file"
	nameSearchFiles = "search_files"
)

// Names returns the names of all tools of this package.
func Names() []string {
	return []string{nameTime, nameCalculator, nameListFiles, nameReadFile, nameSearchFiles}
}

// Options configure the tools.
type Options struct {
	// Root is the directory that the file tools can read. Neither .. nor symbolic links lead
	// out of it. Without Root, there are no file tools.
	Root string
	// Clock returns the current time in the default time zone. The default is time.Now.
	Clock func() time.Time
	// Tools selects tools by name. The default is all tools; without Root, it is all except the
	// file tools.
	Tools []string
}

// Set returns the selected tools, in the order of Options.Tools. A nil o is a zero Options. Set fails
// if Options.Root is not a directory, or if a selected tool is unknown, is selected twice, or needs
// Options.Root.
func Set(o *Options) ([]tool.Tool, error) {
	if o == nil {
		o = &Options{}
	}
	clock := o.Clock
	if clock == nil {
		clock = time.Now
	}
	root, err := newRoot(o.Root)
	if err != nil {
		return nil, err
	}
	names := o.Tools
	if names == nil {
		names = Names()
		if root == nil {
			names = []string{nameTime, nameCalculator}
		}
	}
	var tools []tool.Tool
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("built-in tool %q is chosen twice", name)
		}
		t, err := newTool(name, clock, root)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

func newTool(name string, clock func() time.Time, root *root) (tool.Tool, error) {
	switch name {
	case nameTime:
		return newTime(clock), nil
	case nameCalculator:
		return newCalculator(), nil
	case nameListFiles, nameReadFile, nameSearchFiles:
		if root == nil {
			return nil, fmt.Errorf("built-in tool %q needs a root: the directory that it may read", name)
		}
	}
	switch name {
	case nameListFiles:
		return newListFiles(root), nil
	case nameReadFile:
		return newReadFile(root), nil
	case nameSearchFiles:
		return newSearchFiles(root), nil
	}
	hint := ""
	if near := suggest.Closest(name, Names()); near != nil {
		hint = fmt.Sprintf("; did you mean %s?", near[0])
	}
	return nil, fmt.Errorf("there is no built-in tool %q%s (there are %s)", name, hint, strings.Join(Names(), ", "))
}

// newRoot checks the directory of the file tools. It returns nil if dir is "".
func newRoot(dir string) (*root, error) {
	if dir == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", dir, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", dir, cause(err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("root %q is not a directory", dir)
	}
	return &root{dir: abs}, nil
}

// cause returns the cause of a file error, without the operation and the path.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
