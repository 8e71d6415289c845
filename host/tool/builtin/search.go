package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool"
)

type searchArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Files      string `json:"files"`
	IgnoreCase bool   `json:"ignore_case"`
	Limit      *int   `json:"limit"`
}

// Limits of search_files, in addition to maxOutput.
const (
	maxPattern  = 1000      // bytes
	maxMatches  = 1000      // matching lines in a result
	maxSearched = 20000     // files searched in one call
	maxFileSize = 16 << 20  // bytes of a file
	maxScanned  = 256 << 20 // bytes of all files together
	maxSearch   = 64 << 10  // bytes of a line
	maxShown    = 300       // bytes shown of a matching line
)

func newSearchFiles(r *root) tool.Tool {
	return define(
		nameSearchFiles,
		"Searches text files for lines that match a regular expression. A result line is path:line number:text.",
		`{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "description": "Regular expression in RE2 syntax: no look-around, no back-references."},
    "path": {"type": "string", "description": "Directory to search in with all below it, or one file, relative to the root directory. Left out: the root directory."},
    "files": {"type": "string", "description": "Only files whose name matches this, for example *.go"},
    "ignore_case": {"type": "boolean", "description": "Upper and lower case are the same."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many matching lines to return; 100 if left out."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`,
		func(ctx context.Context, args *searchArgs) (string, error) {
			s, err := newSearch(ctx, args)
			if err != nil {
				return "", err
			}
			p, err := cleanPath(args.Path)
			if err != nil {
				return "", err
			}
			return r.search(s, p)
		},
	)
}

// A search is one call of search_files.
type search struct {
	ctx     context.Context
	pattern *regexp.Regexp
	files   string
	limit   int

	out     strings.Builder
	matches int
	visited int
	scanned int64
	skipped int // files and directories that were not searched
	long    int // lines that were searched only at their beginning
}

func newSearch(ctx context.Context, args *searchArgs) (*search, error) {
	if args.Pattern == "" {
		return nil, errors.New(`the argument "pattern" is missing`)
	}
	if len(args.Pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes; at most %d are allowed", len(args.Pattern), maxPattern)
	}
	expression := args.Pattern
	if args.IgnoreCase {
		expression = "(?i)" + expression
	}
	pattern, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression of RE2: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if _, err := path.Match(args.Files, ""); err != nil || strings.Contains(args.Files, "/") {
		return nil, fmt.Errorf("%q is not a pattern of file names, such as *.go", clip(args.Files, 100))
	}
	limit, err := inRange("limit", args.Limit, 100, 1, maxMatches)
	if err != nil {
		return nil, err
	}
	return &search{ctx: ctx, pattern: pattern, files: args.Files, limit: limit}, nil
}

func (r *root) search(s *search, p string) (string, error) {
	dir, err := r.open()
	if err != nil {
		return "", err
	}
	defer dir.Close()
	info, err := dir.Stat(p)
	switch {
	case err != nil:
		return "", fileError(dir, p, err)
	case info.IsDir():
		w := walker{ctx: s.ctx, dir: dir, visit: func(at string, e fs.DirEntry) error {
			if !e.Type().IsRegular() || !s.named(e.Name()) {
				return nil
			}
			return s.file(dir, at)
		}}
		err = w.walk(p, maxDepth)
		s.skipped += w.skipped
	default:
		f, openErr := openFile(dir, p)
		if openErr != nil {
			return "", openErr
		}
		f.Close()
		err = s.file(dir, p)
	}
	if err != nil && !errors.Is(err, errStop) {
		return "", err
	}
	return s.result(errors.Is(err, errStop)), nil
}

func (s *search) named(name string) bool {
	if s.files == "" {
		return true
	}
	ok, _ := path.Match(s.files, name) // newSearch has checked the pattern
	return ok
}

// file searches one file. It skips files that are not text, too large or unreadable.
func (s *search) file(dir *os.Root, p string) error {
	if s.visited++; s.visited > maxSearched || s.scanned > maxScanned {
		return errStop
	}
	f, err := openFile(dir, p)
	if err != nil {
		s.skipped++
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxFileSize {
		s.skipped++
		return nil
	}
	s.scanned += info.Size()
	lines, kind, err := newLineReader(s.ctx, f)
	if err != nil || kind != "" {
		s.skipped++
		return nil
	}
	lines.keep = maxSearch
	for {
		line, more, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil:
			s.skipped++
			return nil
		}
		if more > 0 {
			s.long++
		}
		if !s.pattern.MatchString(line) {
			continue
		}
		if s.matches == s.limit || s.out.Len() > maxOutput {
			return errStop
		}
		s.matches++
		fmt.Fprintf(&s.out, "%s:%d:%s\n", show(p), lines.number, clip(line, maxShown))
	}
}

func (s *search) result(cut bool) string {
	if s.matches == 0 {
		s.out.WriteString("[no line matches]\n")
	}
	if cut {
		fmt.Fprintf(
			&s.out,
			"[cut after %d matches in %d files; there may be more: search a subdirectory, or for something more specific]\n",
			s.matches,
			s.visited,
		)
	}
	if s.long > 0 {
		fmt.Fprintf(&s.out, "[of %d lines only the first %d bytes were searched]\n", s.long, maxSearch)
	}
	if s.skipped > 0 {
		fmt.Fprintf(&s.out, "[%d files or directories not searched: not text, larger than %d bytes, unreadable, or .git]\n",
			s.skipped, maxFileSize)
	}
	return s.out.String()
}
