package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// maxTypeErrors is the maximum number of lines of the compiler's output that are printed.
const maxTypeErrors = 50

// typeScript returns path, or the main script if path is a source folder. It returns "" if path does not
// exist, which loading reports, and an error if the module is not written in TypeScript.
func typeScript(e *cli.Env, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil
	}
	script, language := path, "not TypeScript"
	if info.IsDir() {
		p, err := hosting.Project(e, path)
		if err != nil {
			return "", err
		}
		script, language = filepath.Join(path, p.Main), "written in "+p.Language.Name
	}
	if !slices.Contains([]string{".ts", ".mts", ".cts", ".tsx"}, strings.ToLower(filepath.Ext(script))) {
		return "", cli.Usagef("--types: %s is %s; tsc checks only TypeScript", path, language)
	}
	return script, nil
}

// checkTypes checks the types in the script at path, or in the folder path, and records the result as
// one check. If TypeScript's compiler is not installed, it prints that and checks nothing.
func (t *tester) checkTypes(ctx context.Context, path string) error {
	began := time.Now()
	script, err := typeScript(t.env, path)
	if err != nil || script == "" {
		return err
	}
	source, err := javascript.FindSource(script)
	if err != nil {
		return err
	}
	tsc := findTSC(source)
	if tsc == "" {
		fmt.Fprintln(t.env.Err, "--types: tsc is not installed, so the types are not checked; install it: "+
			"npm install --save-dev typescript")
		return nil
	}
	config, remove, err := typeConfig(source)
	if err != nil {
		return err
	}
	defer remove()
	text, err := runTSC(ctx, tsc, filepath.Dir(source.Entry), config)
	if err == nil {
		t.add("types of "+script, text, began)
	}
	return err
}

// findTSC returns the path of TypeScript's compiler: the one that the project has installed, or else
// the one in PATH. It returns "" if there is none.
func findTSC(s javascript.Source) string {
	for _, dir := range foldersUp(s) {
		if path, err := exec.LookPath(filepath.Join(dir, "node_modules", ".bin", "tsc")); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("tsc")
	if err != nil {
		return ""
	}
	return path
}

// foldersUp returns the folder of a script, and the folders above it up to the root of its project or
// workspace.
func foldersUp(s javascript.Source) (out []string) {
	for dir := filepath.Dir(s.Entry); ; dir = filepath.Dir(dir) {
		out = append(out, dir)
		if dir == s.Top() || dir == filepath.Dir(dir) {
			return out
		}
	}
}

// typeConfig returns the path of the project's tsconfig.json. If the script has none, typeConfig
// writes a tsconfig.json and the SDK's types to a temporary folder. The caller must call remove,
// which deletes that folder.
func typeConfig(s javascript.Source) (config string, remove func(), err error) {
	for _, dir := range foldersUp(s) {
		config := filepath.Join(dir, "tsconfig.json")
		if _, err := os.Stat(config); err == nil {
			return config, func() {}, nil
		}
	}
	text, err := templates.ReadFile("templates/typescript/tsconfig.json.tmpl")
	if err != nil {
		return "", nil, err
	}
	var values struct {
		CompilerOptions map[string]any `json:"compilerOptions"`
		Files           []string       `json:"files"`
	}
	if err := json.Unmarshal(text, &values); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "agent-runner-types-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	values.Files = []string{filepath.ToSlash(s.Entry)}
	text, err = json.Marshal(values)
	if err == nil {
		err = copySDK("typescript", dir)
	}
	config = filepath.Join(dir, "tsconfig.json")
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return config, remove, nil
}

// runTSC runs TypeScript's compiler in dir, and returns the errors that it reports.
func runTSC(ctx context.Context, tsc, dir, config string) (string, error) {
	cmd := exec.CommandContext(ctx, tsc, "--noEmit", "--pretty", "false", "--project", config)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", cli.BeforeRun(ctx, ctx.Err())
	case err != nil && !errors.As(err, &exit):
		return "", fmt.Errorf("--types: %w", err)
	case err == nil:
		return "", nil
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if more := len(lines) - maxTypeErrors; more > 0 {
		lines = append(lines[:maxTypeErrors], fmt.Sprintf("… and %s", cli.Count(int64(more), "more line")))
	}
	if lines[0] == "" {
		lines[0] = fmt.Sprintf("tsc ended with %v", exit)
	}
	return strings.Join(lines, "\n") + "\n", nil
}
