package javascript

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

// header is the start of every bundle, which identifies it as a bundle.
const header = "// agent-runner script 1\n"

// IsBundle reports whether b is a bundle, and not the source of a script.
func IsBundle(b []byte) bool { return bytes.HasPrefix(b, []byte(header)) }

// Package is the name of the package with helpers for scripts. The package is built in and not read
// from node_modules.
const Package = "@agent-runner/middleware"

//go:embed engine/middleware.js
var middlewareJS string

// Limits on the contents of a script.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 32 << 20
	maxFiles      = 5_000
	maxBundle     = 64 << 20
	maxMessages   = 5
)

// A Source is the source of a script.
type Source struct {
	// Entry is the script's file. The script's imports are in the folder Root, except those from
	// Workspace. Workspace is nil if the script is in no workspace. All paths are absolute.
	Entry     string     `json:"entry"`
	Root      string     `json:"root"`
	Workspace *Workspace `json:"workspace,omitempty"`
	// Text is the script's text if the script is not in a file. Entry is then the script's name in
	// Root, and the script can import only [Package].
	Text *string `json:"text,omitempty"`
	// Guarded makes Build return an error for sources that could crash the bundler or make it run
	// for a long time; see [guard]. It must be set when an untrusted script is bundled in this
	// process and not in a child process.
	Guarded bool `json:"guarded,omitempty"`
}

// SourceOf returns the source of a script that is not in a file. Only the last element of name is
// used.
func SourceOf(name, text string) Source {
	return Source{Entry: filepath.Join(alone, filepath.Base(name)), Root: alone, Text: &text}
}

// alone is the Source.Root of scripts without files.
var alone = string(filepath.Separator)

// FindSource returns the source of a script in a file. The root is the nearest folder with a
// package.json or node_modules, from the script's folder upwards. If there is no such folder, the
// root is the script's folder. The project may belong to a [Workspace].
func FindSource(path string) (Source, error) {
	entry, err := filepath.Abs(path)
	if err == nil {
		entry, err = filepath.EvalSymlinks(entry)
	}
	if err != nil {
		return Source{}, err
	}
	own := filepath.Dir(entry)
	for dir := own; ; dir = filepath.Dir(dir) {
		for _, name := range []string{"package.json", "node_modules"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return Source{Entry: entry, Root: dir, Workspace: findWorkspace(dir)}, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return Source{Entry: entry, Root: own}, nil
		}
	}
}

// A Bundle is one JavaScript file that contains a script, everything that the script imports, and a
// source map.
type Bundle struct {
	Code []byte `json:"code"`
	// Inputs maps the bundled files to their SHA-256.
	Inputs   map[string]string `json:"inputs"`
	Warnings []string          `json:"warnings,omitempty"`
}

// Build bundles and transpiles a script. A mistake in the script is a [*ScriptError], which
// contains the position of the mistake. A script with a Text is bundled in memory, and the result
// does not depend on any file. The time and memory for building grow faster than the size of the
// script. Untrusted scripts should therefore be bundled in a child process; see [Job].
func Build(s Source) (*Bundle, error) {
	if s.Text != nil && s.Guarded && computesPaths(s) {
		return nil, searches(s)
	}
	b := &builder{source: s, inputs: map[string]string{}}
	out := api.Build(api.BuildOptions{
		EntryPoints:   []string{"script"}, // resolved to s.Entry, whose name could be a pattern for esbuild
		AbsWorkingDir: s.Root,
		Outfile:       filepath.Join(s.Root, "script.js"), // not written
		Bundle:        true,
		Format:        api.FormatIIFE,
		GlobalName:    "script",
		Platform:      api.PlatformNeutral,
		MainFields:    []string{"module", "main"},
		Target:        api.ES2023,
		Charset:       api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone,
		Sourcemap:     api.SourceMapExternal,
		TsconfigRaw:   "{}",
		LogLevel:      api.LogLevelSilent,
		LogLimit:      maxMessages,
		Define:        map[string]string{"process.env.NODE_ENV": `"production"`},
		Banner:        map[string]string{"js": header + `"use strict";`},
		Footer:        map[string]string{"js": "script;"},
		Plugins:       []api.Plugin{{Name: "agent-runner", Setup: b.setup}},
	})
	if s.Text != nil && b.searchedFiles(out) {
		return nil, searches(s)
	}
	out.Errors, out.Warnings = b.inProject(out.Errors), b.inProject(out.Warnings)
	if len(out.Errors) > 0 {
		return nil, mistakes(out.Errors)
	}
	var code, sourceMap []byte
	for _, f := range out.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			code = f.Contents
		}
	}
	// The sources in the map contain the line that load appended.
	sourceMap = bytes.ReplaceAll(sourceMap, []byte(`\n`+noMap+`"`), []byte(`"`))
	code = append(code, mapMark...)
	code = base64.StdEncoding.AppendEncode(code, sourceMap)
	code = append(code, '\n')
	if len(code) > maxBundle {
		return nil, fmt.Errorf("the bundle has %d bytes; at most %d are allowed", len(code), maxBundle)
	}
	bundle := &Bundle{Code: code, Inputs: b.inputs}
	for _, w := range out.Warnings {
		bundle.Warnings = append(bundle.Warnings, place(w)+w.Text)
	}
	return bundle, nil
}

// mapMark is the start of the comment that contains a bundle's source map.
const mapMark = "//# sourceMappingURL=data:application/json;base64,"

// noMap is appended to each source. esbuild reads the source map that the last such comment of a
// file names, and the sources that the map names. Both can be anywhere on the disk. esbuild ignores
// URLs of an unknown scheme.
const noMap = "//# sourceMappingURL=none:"

// searches returns the error for s, a script without files that imports a computed path.
func searches(s Source) *ScriptError {
	return &ScriptError{
		fmt.Sprintf("%s: import() or require() of a computed path: a script that comes without its files can import %s alone",
			filepath.Base(s.Entry), Package),
	}
}

// importCall matches a call of import or require in esbuild's output, and constantCall matches such
// a call with a constant path.
var (
	importCall   = regexp.MustCompile(`(?:^|[^\w$.])(?:import|require)\(`)
	constantCall = regexp.MustCompile(`(?:^|[^\w$.])(?:import|require)\("[^"\\]*"[,)]`)
)

// computesPaths reports whether a script without files may contain an import() or require() of a
// computed path. esbuild would search the disk for matching files. computesPaths examines the
// output of a transformation, which reads no file and prints all such calls in one form. It
// therefore also returns true for strings that contain the text of such a call. In a child process
// this check is not needed, because the jail hides the disk.
func computesPaths(s Source) bool {
	if guard([]byte(*s.Text)) != nil {
		return false // the plugin rejects it with a better message
	}
	out := api.Transform(*s.Text+"\n"+noMap, api.TransformOptions{
		Loader: loaders[strings.ToLower(filepath.Ext(s.Entry))], MinifyWhitespace: true, LegalComments: api.LegalCommentsNone,
		Target: api.ESNext, TsconfigRaw: "{}", LogLevel: api.LogLevelSilent,
	})
	return len(importCall.FindAllIndex(out.Code, -1)) != len(constantCall.FindAllIndex(out.Code, -1))
}

// searchedFiles reports whether a script without files contains an import() or require() of a
// computed path, such as import(`./${x}.js`). esbuild searches for matching files without calling
// the plugin. Build returns an error whether or not files match, so that the result does not reveal
// which files exist.
func (b *builder) searchedFiles(out api.BuildResult) bool {
	found := slices.ContainsFunc(out.Warnings, func(m api.Message) bool { return m.ID == "empty-glob" })
	// The plugin returns its own errors for all other imports that fail.
	missing := slices.ContainsFunc(out.Errors,
		func(m api.Message) bool { return strings.HasPrefix(m.Text, "Could not resolve ") })
	return found || missing || b.foreign
}

// inProject replaces messages about files outside of the project, such as a package.json that
// esbuild read without calling the plugin. The new message contains no text of the file.
func (b *builder) inProject(messages []api.Message) []api.Message {
	for i, m := range messages {
		if m.Location == nil || filepath.IsLocal(m.Location.File) {
			continue
		}
		if b.inside(filepath.Join(b.source.Root, m.Location.File)) != nil {
			messages[i] = api.Message{Text: "a file outside of the project would be needed, which is not read"}
		}
	}
	return messages
}

// A ScriptError is a mistake in the script.
type ScriptError struct{ Text string }

func (e *ScriptError) Error() string { return e.Text }

// mistakes returns esbuild's messages as one error. Each message is followed by its source line.
func mistakes(messages []api.Message) error {
	var b strings.Builder
	for i, m := range messages {
		if i > 0 {
			b.WriteString("\n")
		}
		l := m.Location
		if l != nil && l.LineText == noMap { // the end of the file
			l.Line, l.Column, l.LineText = l.Line-1, 0, ""
		}
		b.WriteString(place(m) + m.Text)
		if l != nil && l.LineText != "" {
			b.WriteString("\n" + frame([]string{l.LineText}, l.Line, l.Line, l.Column+1))
		}
		for _, n := range m.Notes {
			b.WriteString("\n" + n.Text)
		}
	}
	return &ScriptError{b.String()}
}

// place returns the position of a message as "file:line:column: ", or "" if the message has none.
func place(m api.Message) string {
	if m.Location == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d: ", m.Location.File, m.Location.Line, m.Location.Column+1)
}

// A builder is the state of one build: the script's source, and the files that were read.
type builder struct {
	source Source

	mu     sync.Mutex // esbuild loads files concurrently
	inputs map[string]string
	total  int
	// foreign reports whether esbuild requested another file while it bundled a script without files.
	foreign bool
}

// inner is the plugin data of requests that the builder makes to esbuild's resolver. The builder's
// plugin does not handle these requests.
type inner struct{}

// setup makes esbuild call resolve for each import and load for each file.
func (b *builder) setup(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
		_, own := args.PluginData.(inner)
		switch {
		case own:
			return api.OnResolveResult{}, nil // esbuild resolves the path
		case args.Kind == api.ResolveEntryPoint:
			return api.OnResolveResult{Path: b.source.Entry}, nil
		case args.Path == Package:
			return api.OnResolveResult{Path: args.Path, Namespace: builtIn}, nil
		}
		return b.resolve(build, args)
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: builtIn}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		return api.OnLoadResult{Contents: &middlewareJS, Loader: api.LoaderJS}, nil
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*"}, b.load)
}

const builtIn = "agent-runner"

// resolve resolves an import like esbuild, but returns an error for files outside of the project.
// For a script without files it always returns an error.
func (b *builder) resolve(build api.PluginBuild, args api.OnResolveArgs) (api.OnResolveResult, error) {
	if b.source.Text != nil {
		return api.OnResolveResult{}, fmt.Errorf("a script that comes without its files can import %s alone, not %q",
			Package, args.Path)
	}
	found := build.Resolve(args.Path, api.ResolveOptions{Importer: args.Importer, Namespace: args.Namespace,
		ResolveDir: args.ResolveDir, Kind: args.Kind, PluginData: inner{}, With: args.With})
	if len(found.Errors) > 0 {
		return api.OnResolveResult{}, fmt.Errorf("cannot find %q; %s", args.Path, b.hint(args.Path))
	}
	if found.External || found.Namespace != "file" {
		return api.OnResolveResult{}, fmt.Errorf("%q cannot be bundled; %s", args.Path, b.hint(args.Path))
	}
	if err := b.inside(found.Path); err != nil {
		return api.OnResolveResult{}, err
	}
	result := api.OnResolveResult{Path: found.Path, Namespace: found.Namespace, Suffix: found.Suffix}
	if !found.SideEffects {
		result.SideEffects = api.SideEffectsFalse
	}
	return result, nil
}

func (b *builder) hint(path string) string {
	if strings.HasPrefix(path, ".") || strings.HasPrefix(path, "/") {
		return "imports are relative to the importing file"
	}
	return fmt.Sprintf(
		"install it with npm in %s; what only Node.js has (files, network, processes) is not there in a middleware",
		b.source.Root,
	)
}

// inside returns an error if path is outside of the project after symbolic links are resolved.
func (b *builder) inside(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if !b.source.contains(real) {
		return fmt.Errorf("%s is outside of the project %s, the nearest folder with a package.json", real, b.source.Root)
	}
	return nil
}

// loaders maps file extensions to esbuild's loaders.
var loaders = map[string]api.Loader{
	".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".jsx": api.LoaderJSX,
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".tsx": api.LoaderTSX,
	".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
}

// IsScript reports whether path has the extension of a script.
func IsScript(path string) bool {
	switch loaders[strings.ToLower(filepath.Ext(path))] {
	case api.LoaderJS, api.LoaderJSX, api.LoaderTS, api.LoaderTSX:
		return true
	default:
		return false
	}
}

// load reads a file for esbuild, and appends noMap to a script so that esbuild reads no source map.
func (b *builder) load(args api.OnLoadArgs) (api.OnLoadResult, error) {
	if b.source.Text != nil && args.Path != b.source.Entry {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.foreign = true
		return api.OnLoadResult{}, errors.New("there is no other file")
	}
	loader, ok := loaders[strings.ToLower(filepath.Ext(args.Path))]
	if !ok {
		return api.OnLoadResult{}, fmt.Errorf(
			"%s is no file that can be imported; there are JavaScript, TypeScript, .json, .txt and .md",
			filepath.Base(args.Path),
		)
	}
	content, err := b.content(args.Path)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	if b.source.Guarded {
		if err := guard(content); err != nil {
			return api.OnLoadResult{}, err
		}
	}
	text := string(content)
	if IsScript(args.Path) {
		text += "\n" + noMap
	}
	return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(args.Path)}, nil
}

// content returns the content of a file, or of the script without a file. It counts the bytes
// towards the limits, and records their SHA-256.
func (b *builder) content(path string) (content []byte, err error) {
	if b.source.Text != nil {
		content = []byte(*b.source.Text)
	} else if err = b.inside(path); err == nil {
		content, err = readRegular(path, maxFileBytes)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sha256.Sum256(content)
	b.inputs[path] = hex.EncodeToString(sum[:])
	switch b.total += len(content); {
	case b.total > maxTotalBytes:
		return nil, fmt.Errorf("what the script imports has more than %d bytes", maxTotalBytes)
	case len(b.inputs) > maxFiles:
		return nil, fmt.Errorf("the script imports more than %d files", maxFiles)
	}
	return content, nil
}

// readRegular reads a regular file of at most limit bytes.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(filepath.Base(path) + " is not a regular file")
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are allowed", filepath.Base(path), info.Size(), limit)
	}
	return os.ReadFile(path)
}
