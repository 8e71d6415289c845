package main

import (
	"errors"
	"path"
	"strings"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

const (
	maxDepth = 5  // levels of imports
	maxFiles = 50 // files that one run loads for its instruction
)

// A missing is the error for a file that is omitted; the run continues without it.
type missing struct{ reason string }

func (m *missing) Error() string { return m.reason }

// clean reports whether p is a canonical path below the root.
func clean(p string) bool {
	return p != "" && p != "." && p != ".." && path.Clean(p) == p && !path.IsAbs(p) && !strings.HasPrefix(p, "../") &&
		!strings.Contains(p, "\\")
}

// open returns the contents of a file from the configuration, or from the read tool. The error is a
// *missing if neither has the file, or if the tool returns an error result.
func (r *instructor) open(ctx *middleware.Context, p string) (string, error) {
	if text, ok := r.Files[p]; ok {
		return text, nil
	}
	if r.ReadTool == "" {
		return "", &missing{"there is no such file in the configuration"}
	}
	res, err := ctx.Tool(r.ReadTool, map[string]string{r.ReadArgument: p})
	if err != nil {
		return "", middleware.Errorf("read %s: %w", p, err)
	}
	if res.IsError {
		return "", &missing{res.Content.String()}
	}
	return res.Content.String(), nil
}

// A loading collects the files of the instruction.
type loading struct {
	r    *instructor
	ctx  *middleware.Context
	seen map[string]bool
	text strings.Builder
	left int // number of bytes that max_bytes still allows
}

func (r *instructor) loadFiles(ctx *middleware.Context) (string, error) {
	l := &loading{r: r, ctx: ctx, seen: map[string]bool{}, left: r.MaxBytes}
	for _, p := range r.Load {
		if err := l.file(p, "", 0); err != nil {
			return "", err
		}
	}
	return l.text.String(), nil
}

// file loads the file p and then the files that it imports, each file once. The parameter from is
// the file that imports p, or "". It skips a file that is missing or exceeds a limit.
func (l *loading) file(p, from string, depth int) error {
	if l.seen[p] {
		return nil
	}
	if len(l.seen) == maxFiles || depth > maxDepth {
		return l.skip(
			p,
			from,
			middleware.Sprintf("there are more than %d files, or imports more than %d deep", maxFiles, maxDepth),
		)
	}
	l.seen[p] = true
	text, err := l.r.open(l.ctx, p)
	var gone *missing
	if errors.As(err, &gone) {
		return l.skip(p, from, gone.reason)
	}
	if err != nil {
		return err
	}
	if len(text) > l.left {
		return l.skip(
			p,
			from,
			middleware.Sprintf("its %d bytes are more than the %d that are left of max_bytes", len(text), l.left),
		)
	}
	l.left -= len(text)
	by := ""
	if from != "" {
		by = ", imported by " + from
	}
	l.text.WriteString(middleware.Sprintf("Contents of %s%s:\n\n%s\n\n", p, by, strings.TrimSpace(text)))
	for _, ref := range imports(text) {
		next := path.Join(path.Dir(p), ref)
		if path.IsAbs(ref) || !clean(next) {
			err = l.skip(ref, p, "it is no path below the root")
		} else {
			err = l.file(next, p, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skip emits an event for the file p, which is omitted for the given reason. from is the file that
// imports it, or "".
func (l *loading) skip(p, from, reason string) error {
	return l.ctx.Emit("left_out", map[string]string{"file": p, "from": from, "why": reason})
}

// imports returns the paths that text imports as @path, outside of code.
func imports(text string) []string {
	var out []string
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		// Text between two backticks is code, too.
		for i, part := range strings.Split(line, "`") {
			if i%2 == 1 {
				continue
			}
			for _, word := range strings.Fields(part) {
				ref, ok := strings.CutPrefix(word, "@")
				ref = strings.TrimRight(ref, ".,;:!?)\"'")
				// An @name without a dot or slash names a person.
				if ok && strings.ContainsAny(ref, "./") {
					out = append(out, ref)
				}
			}
		}
	}
	return out
}
