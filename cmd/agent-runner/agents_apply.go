package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/agentfile"
	"github.com/agent-runner/agent-runner/host/client"
)

// applied is what became of a file.
type applied struct {
	File   string         `json:"file"`
	Did    string         `json:"did"` // created, changed or unchanged
	Pushed []appliedPush  `json:"pushed"`
	Agent  *client.Agent  `json:"agent"`
	seen   map[string]int // of Pushed, by path
}

// An appliedPush is a module that a file names by its path.
type appliedPush struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Did    string `json:"did"` // pushed, or there: the server had it
}

// apply keeps the agent of a file.
func (r *remote) apply(ctx context.Context, path string) (*applied, error) {
	text, err := readFile(path, agentfile.MaxSize)
	if err != nil {
		return nil, err
	}
	f, err := agentfile.Parse(path, text)
	if err != nil {
		return nil, err
	}
	if f.Name == "" {
		return nil, usagef("%s: the agent has no name; put one into the file: name: %s", path, strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))))
	}
	a := &applied{File: path, Pushed: []appliedPush{}, seen: map[string]int{}}
	text, err = r.pushPaths(ctx, a, f, text)
	if err != nil {
		return nil, err
	}
	before, err := r.Agent(ctx, f.Name, 0)
	if err != nil && !unknown(err) {
		return nil, err
	}
	if a.Agent, err = r.PutAgent(ctx, f.Name, text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch a.Agent.Version {
	case before.Version: // 0 if there was none
		a.Did = "unchanged"
	case 1:
		a.Did = "created"
	default:
		a.Did = "changed"
	}
	if r.output == "text" {
		for _, w := range a.Agent.Warnings {
			r.note(amber, "warning: %s", w)
		}
	}
	return a, nil
}

// unknown reports whether an error says that something is not there, or that the key
// may not read whether it is.
func unknown(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && (p.Code() == client.NotFound || p.Code() == client.Forbidden)
}

// pushPaths uploads the modules that a file names by paths, and puts their digests in
// the places of the paths.
func (r *remote) pushPaths(ctx context.Context, a *applied, f *agentfile.File, text []byte) ([]byte, error) {
	var edits []edit
	var wrong error
	walkEntries(f, func(f *agentfile.File, at string, m *agentfile.Middleware) {
		if wrong != nil {
			return
		}
		local, err := localModule(a.File, string(m.Module))
		if err == nil && local != "" {
			var digest string
			if digest, err = r.pushPath(ctx, a, local); err == nil {
				var place edit
				if place, err = placeOf(f, at+".module", string(m.Module), digest); err == nil {
					edits = append(edits, place)
				}
			}
		}
		if err != nil {
			wrong = f.ErrorAt(at+".module", err)
			var problem *client.Problem
			if errors.As(err, &problem) {
				wrong = err // which names the module
			}
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	return rewrite(text, edits)
}

// localModule is the path of a module, relative to where the command runs; empty for
// one that the server is to know by that name.
func localModule(file, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	isPath := strings.ContainsRune(name, '/')
	isFile := slices.Contains([]string{".wasm", ".ts", ".mts", ".js", ".mjs", ".json"}, strings.ToLower(filepath.Ext(name)))
	if !isPath && !isFile {
		return "", nil
	}
	if _, err := os.Stat(path); err != nil {
		if isPath {
			return "", fmt.Errorf("module: %s: %w; want a file beside %s, or the name of a module that the server has", path, bare(err), filepath.Base(file))
		}
		return "", nil // a name may have dots
	}
	return path, nil
}

// pushPath uploads a module, unless the server has it, and returns its digest.
func (r *remote) pushPath(ctx context.Context, a *applied, path string) (string, error) {
	if i, ok := a.seen[path]; ok {
		return a.Pushed[i].Digest, nil
	}
	p, err := readParcel(path)
	if err != nil {
		return "", err
	}
	done := appliedPush{Path: path, Digest: p.digest, Did: "there"}
	if _, err := r.Module(ctx, p.digest); err != nil {
		if !unknown(err) {
			return "", err
		}
		m, err := r.push(ctx, p, "", "")
		if err != nil {
			return "", err
		}
		done.Digest, done.Did = m.Digest, "pushed"
	}
	if r.output == "text" {
		verb := map[string]string{"there": "has", "pushed": "now has"}[done.Did]
		r.note(plain, "%s: the server %s %s", path, verb, done.Digest)
	}
	a.seen[path] = len(a.Pushed)
	a.Pushed = append(a.Pushed, done)
	return done.Digest, nil
}

// walkEntries calls fn for each module of a file, and of the agents inside of it.
func walkEntries(f *agentfile.File, fn func(f *agentfile.File, at string, m *agentfile.Middleware)) {
	for _, ring := range []struct {
		at   string
		list []agentfile.Middleware
	}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
		for i := range ring.list {
			fn(f, fmt.Sprintf("%s[%d]", ring.at, i), &ring.list[i])
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			walkEntries(inner, fn)
		}
	}
}

// An edit puts a text in the place of another one.
type edit struct {
	line, column int // from 1
	old, new     string
	file         string
}

// placeOf is where a value stands in its file.
func placeOf(f *agentfile.File, at, old, digest string) (edit, error) {
	var place *agentfile.Error
	if !errors.As(f.ErrorAt(at, errors.New("here")), &place) {
		return edit{}, errors.New("module: its place in the file is not known")
	}
	return edit{place.Line, place.Column, old, digest, place.File}, nil
}

// rewrite makes edits; the rest of the text, with its comments, stays as it is.
func rewrite(text []byte, edits []edit) ([]byte, error) {
	lines := strings.Split(string(text), "\n")
	// From the back, so that places before stay what they are.
	slices.SortFunc(edits, func(a, b edit) int { return (b.line-a.line)<<16 + b.column - a.column })
	for _, e := range edits {
		line := []rune(lines[e.line-1])
		// The place is that of the key, or of the value.
		at := min(max(e.column-1, 0), len(line))
		before, rest := string(line[:at]), string(line[at:])
		i := strings.Index(rest, e.old)
		if i < 0 {
			return nil, usagef("%s:%d: write the path of the module %s on the line of its entry's module:, without escapes", e.file, e.line, e.old)
		}
		lines[e.line-1] = before + rest[:i] + e.new + rest[i+len(e.old):]
	}
	return []byte(strings.Join(lines, "\n")), nil
}
