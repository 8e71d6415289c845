package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/suggest"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Limits of the file tools.
const (
	maxPath    = 4096     // bytes of a path
	maxOutput  = 64 << 10 // bytes of a result, which the model has to read
	maxEntries = 10000    // per directory
	maxVisited = 200000   // entries of all directories of one call
	maxDepth   = 32       // levels of directories
)

// A root is the directory of the file tools. It is opened for each call, so that no handle stays
// open and a replaced directory is found.
type root struct{ dir string }

// open opens the root directory. The caller must close it.
func (r *root) open() (*os.Root, error) {
	dir, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, fmt.Errorf("the root directory cannot be read: %w", cause(err))
	}
	return dir, nil
}

// cleanPath checks a path that a model gave. os.Root rejects paths outside of the root too;
// cleanPath returns more helpful errors.
func cleanPath(p string) (string, error) {
	switch {
	case len(p) > maxPath:
		return "", fmt.Errorf("the path has %d bytes; at most %d are allowed", len(p), maxPath)
	case strings.IndexByte(p, 0) >= 0 || !utf8.ValidString(p):
		return "", fmt.Errorf("the path %q is not valid text", clip(p, 100))
	case p == "":
		return ".", nil
	case path.IsAbs(p) || filepath.IsAbs(p) || filepath.VolumeName(p) != "":
		if rest := strings.TrimLeft(path.Clean(p), "/"); rest == "" {
			return ".", nil
		}
		return "", fmt.Errorf("%q is an absolute path; paths are relative to the root directory, which is %q",
			clip(p, 100), ".")
	}
	// path.Clean would turn a/../b into b, which is wrong if a is a symbolic link.
	if clean := path.Clean(p); clean == ".." || strings.HasPrefix(clean, "../") {
		return "", outside(p)
	}
	return p, nil
}

func outside(p string) error {
	return fmt.Errorf("%q is outside of the root directory; only files in it can be read", clip(p, 100))
}

// fileError returns an error for the model about a path, with a suggestion if there is one.
func fileError(dir *os.Root, p string, err error) error {
	why := cause(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint := "; list_files shows what there is"
		names := siblings(dir, p)
		if slices.Contains(names, path.Base(p)) {
			return fmt.Errorf("%s is a symbolic link to something that is not there", show(p))
		}
		if near := suggest.Closest(path.Base(p), names); near != nil {
			hint = fmt.Sprintf("; did you mean %s?", show(path.Join(path.Dir(p), near[0])))
		}
		return fmt.Errorf("there is no %s%s", show(p), hint)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be read", show(p))
	case why.Error() == "path escapes from parent": // package os does not export this error
		return outside(p)
	default:
		return fmt.Errorf("%s cannot be read: %w", show(p), why)
	}
}

// siblings returns the sorted names in the directory of p, at most maxEntries, or nil on an
// error.
func siblings(dir *os.Root, p string) []string {
	f, err := openDirectory(dir, path.Dir(p))
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxEntries)
	slices.Sort(names)
	return names
}

// openDirectory opens a directory. Like openFile, it returns an error for a path of another type,
// and does not wait for a named pipe to be opened at its other end.
func openDirectory(dir *os.Root, p string) (*os.File, error) {
	return open(dir, p, func(m fs.FileMode) string {
		if m.IsDir() {
			return ""
		}
		return "is not a directory"
	})
}

func openFile(dir *os.Root, p string) (*os.File, error) {
	return open(dir, p, func(m fs.FileMode) string {
		switch {
		case m.IsRegular():
			return ""
		case m.IsDir():
			return "is a directory; list_files shows what is in it"
		default:
			return "is not an ordinary file"
		}
	})
}

// open opens the file or directory at p. It calls wrong with the mode of the file. If wrong returns
// a reason, open fails with it. open does not block if p is a named pipe.
func open(dir *os.Root, p string, wrong func(fs.FileMode) string) (*os.File, error) {
	f, err := dir.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(dir, p, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fileError(dir, p, err)
	}
	if text := wrong(info.Mode()); text != "" {
		f.Close()
		return nil, fmt.Errorf("%s %s", show(p), text)
	}
	return f, nil
}

// entries reads a directory, sorted by name. more is set if the directory has more than maxEntries
// entries.
func entries(dir *os.Root, p string) (list []fs.DirEntry, more bool, err error) {
	f, err := openDirectory(dir, p)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	list, err = f.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fileError(dir, p, err)
	}
	if len(list) > maxEntries {
		list, more = list[:maxEntries], true
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, more, nil
}

// errStop ends a walk at a limit.
var errStop = errors.New("enough")

// A walker visits the entries below a directory, in order of names.
type walker struct {
	ctx   context.Context
	dir   *os.Root
	visit func(p string, e fs.DirEntry) error

	visited int
	skipped int // directories that are too large or unreadable, and .git
}

// walk calls visit for the entries of the directory p, and of the directories below it down to depth
// levels. It returns the error of reading p, the context's error, and errStop if visit returns it or
// after maxVisited entries. It skips a directory below p that it cannot read or that is named .git,
// and counts it in w.skipped.
func (w *walker) walk(p string, depth int) error {
	list, more, err := entries(w.dir, p)
	if err != nil {
		return err
	}
	if more {
		w.skipped++
	}
	for _, e := range list {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.visited++; w.visited > maxVisited {
			return errStop
		}
		at := path.Join(p, e.Name())
		if err := w.visit(at, e); err != nil {
			return err
		}
		if !e.IsDir() || depth <= 1 {
			continue
		}
		if e.Name() == ".git" {
			w.skipped++
			continue
		}
		err := w.walk(at, depth-1)
		if errors.Is(err, errStop) || w.ctx.Err() != nil {
			return err
		}
		if err != nil {
			w.skipped++
		}
	}
	return nil
}

// show formats a path, quoted if it has characters that are not printable.
func show(p string) string {
	for _, r := range p {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(p)
		}
	}
	return p
}

// clip truncates s to at most n bytes, and then adds an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return truncate.Text(s, n) + "…"
}
