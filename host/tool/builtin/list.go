package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool"
)

type listArgs struct {
	Path  string `json:"path"`
	Depth *int   `json:"depth"`
}

// maxListed is the maximum number of entries in a result of list_files.
const maxListed = 1000

func newListFiles(r *root) tool.Tool {
	return define(
		nameListFiles,
		"Lists the files and directories in a directory. A directory ends with a slash, a symbolic link with @; a file is followed by its size in bytes.",
		`{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "Directory, relative to the root directory. Left out: the root directory."},
    "depth": {"type": "integer", "minimum": 1, "maximum": 32, "description": "How many levels of directories to list; 1 if left out."}
  },
  "additionalProperties": false
}`,
		func(ctx context.Context, args *listArgs) (string, error) {
			p, err := cleanPath(args.Path)
			if err != nil {
				return "", err
			}
			depth, err := inRange("depth", args.Depth, 1, 1, maxDepth)
			if err != nil {
				return "", err
			}
			return r.list(ctx, p, depth)
		},
	)
}

// list returns the entries of a directory, and of the directories below it down to depth levels, as
// text for the model.
func (r *root) list(ctx context.Context, p string, depth int) (string, error) {
	dir, err := r.open()
	if err != nil {
		return "", err
	}
	defer dir.Close()
	var b strings.Builder
	listed := 0
	w := walker{ctx: ctx, dir: dir, visit: func(at string, e fs.DirEntry) error {
		if listed == maxListed || b.Len() > maxOutput {
			return errStop
		}
		listed++
		b.WriteString(show(at) + entryMark(e) + "\n")
		return nil
	}}
	switch err := w.walk(p, depth); {
	case errors.Is(err, errStop):
		fmt.Fprintf(&b, "[cut after %d entries; list a subdirectory, or use a smaller depth]\n", listed)
	case err != nil:
		return "", err
	case listed == 0:
		return fmt.Sprintf("%s is empty", show(p)), nil
	}
	if w.skipped > 0 {
		fmt.Fprintf(&b, "[%d directories not listed completely: .git, unreadable, or more than %d entries]\n",
			w.skipped, maxEntries)
	}
	return b.String(), nil
}

// entryMark returns the suffix for the type or the size of an entry.
func entryMark(e fs.DirEntry) string {
	switch mode := e.Type(); {
	case mode.IsDir():
		return "/"
	case mode&fs.ModeSymlink != 0:
		return "@"
	case !mode.IsRegular():
		return "  (special file)"
	}
	info, err := e.Info()
	if err != nil { // removed meanwhile
		return ""
	}
	return fmt.Sprintf("  %d", info.Size())
}
