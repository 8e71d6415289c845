package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// applied is the result of applying one agent file.
type applied struct {
	pushes
	Did   string     `json:"did"` // "created", "changed" or "unchanged"
	Agent *api.Agent `json:"agent"`
}

// pushes holds the uploads of the modules of a file.
type pushes struct {
	File   string         `json:"file"`
	Pushed []appliedPush  `json:"pushed"`
	seen   map[string]int // indexes in Pushed, by path
}

func newPushes(file string) pushes {
	return pushes{File: file, Pushed: []appliedPush{}, seen: map[string]int{}}
}

// An appliedPush is a module that a file names by path.
type appliedPush struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Did    string `json:"did"` // "pushed", or "there" if the server already had it
}

// apply creates or updates the agent of a file on the server. It first uploads the modules that the
// file names by path.
func (r *Session) apply(ctx context.Context, path string) (*applied, error) {
	text, err := cli.ReadFile(path, agentfile.MaxSize)
	if err != nil {
		return nil, err
	}
	f, err := agentfile.Parse(path, text)
	if err != nil {
		return nil, err
	}
	if f.Name == "" {
		return nil, cli.Usagef("%s: the agent has no name; add one to the file: name: %s",
			path, strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))))
	}
	a := &applied{pushes: newPushes(path)}
	errorAt := func(at string, err error) error { return agentfile.ErrorAt(f, at, err) }
	text, err = r.pushPaths(ctx, &a.pushes, errorAt, text)
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
	a.Did = did(before.Version, a.Agent.Version)
	r.warn(a.Agent.Warnings)
	return a, nil
}

// did describes a request that stored a version. before and after are the newest versions before and
// after the request; before is 0 if there was none.
func did(before, after int64) string {
	switch after {
	case before:
		return "unchanged"
	case 1:
		return "created"
	default:
		return "changed"
	}
}

// unknown reports whether err means that the requested item does not exist, or that the key lacks the
// scope to check.
func unknown(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && (p.Code() == api.CodeNotFound || p.Code() == api.CodeForbidden)
}

// pushPaths uploads the modules that a file names by path, and returns the text with the paths
// replaced with digests. errorAt adds the position of a key to an error.
func (r *Session) pushPaths(
	ctx context.Context,
	a *pushes,
	errorAt func(at string, err error) error,
	text []byte,
) ([]byte, error) {
	places, err := modulePlaces(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.File, err)
	}
	var local []modulePlace
	for _, p := range places {
		path, err := localModule(a.File, p.module)
		switch {
		case err != nil:
		case path != "":
			if p.digest, err = r.pushPath(ctx, a, path); err == nil {
				local = append(local, p)
			}
		case isModuleFile(p.module):
			err = r.checkName(ctx, a.File, p.module)
		}
		var problem *api.Problem
		switch {
		case errors.As(err, &problem):
			return nil, err // the error names the module
		case err != nil:
			return nil, errorAt(p.at, err)
		}
	}
	lines := strings.Split(string(text), "\n")
	for _, p := range slices.Backward(local) { // backward, so that earlier positions remain valid
		var err error
		if lines, err = p.rewrite(lines); err != nil {
			return nil, errorAt(p.at, err)
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// localModule returns the path of a module, relative to the working directory. It
// returns "" if name is a name or digest for the server to resolve.
func localModule(file, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	isPath := strings.ContainsRune(name, '/')
	if !isPath && !isModuleFile(name) {
		return "", nil
	}
	switch _, err := os.Stat(path); {
	case err == nil:
		return path, nil
	case isPath:
		return "", fmt.Errorf("module: %s: %w; want a path relative to %s, or the name of a module on the server",
			path, cli.Bare(err), filepath.Base(file))
	}
	return "", nil // a name may have dots
}

// isModuleFile reports whether name has an extension of a file with a module.
func isModuleFile(name string) bool {
	return slices.Contains([]string{".wasm", ".ts", ".mts", ".js", ".mjs", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// checkName returns an error if the server has no module with a name that looks like that of a file.
func (r *Session) checkName(ctx context.Context, file, name string) error {
	_, err := r.Module(ctx, name)
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Code() == api.CodeNotFound {
		return cli.Usagef("module: there is no file %s, and no module of this name on the server",
			filepath.Join(filepath.Dir(file), name))
	}
	return nil // other errors occur again when the server reads the file
}

// pushPath uploads a module unless the server already has it, and returns its digest.
func (r *Session) pushPath(ctx context.Context, a *pushes, path string) (string, error) {
	if i, ok := a.seen[path]; ok {
		return a.Pushed[i].Digest, nil
	}
	p, err := ReadUpload(ctx, r.Env, path)
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
	if r.Output == "text" {
		verb := map[string]string{"there": "has", "pushed": "now has"}[done.Did]
		r.Note(cli.Faint, "%s: the server %s %s", path, verb, shortDigest(done.Digest))
	}
	a.seen[path] = len(a.Pushed)
	a.Pushed = append(a.Pushed, done)
	return done.Digest, nil
}
