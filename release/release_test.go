package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

// A built is a finished release.
type built struct {
	dir     string
	version string // of the Go module
	number  string // the version without its v
	command string // the binary for this machine
}

// TestRelease builds the commit HEAD twice, and uses the files of the release as a user does.
func TestRelease(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")
	require.NoError(t, buildRelease(t.Context(), "..", "HEAD", first))
	t.Run("reproducible", func(t *testing.T) {
		// The environment of the build differs. The compiler's cache is the same, unless GOCACHE is
		// set.
		t.Setenv("GOFLAGS", "-buildvcs=false -ldflags=-w")
		t.Setenv("GOAMD64", "v3")
		t.Setenv("TZ", "Asia/Tokyo")
		other := t.TempDir() // npm's archives depend on its version
		write(t, other, "npm", "#!/bin/sh\nexit 1\n")
		require.NoError(t, os.Chmod(filepath.Join(other, "npm"), 0o755))
		t.Setenv("PATH", other+":"+os.Getenv("PATH"))
		require.NoError(t, buildRelease(t.Context(), "..", "HEAD", second))
		require.Equal(t, read(t, first, "checksums.txt"), read(t, second, "checksums.txt"))
	})
	b := open(t, first)
	t.Run("checksums", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Error(t, buildRelease(t.Context(), "..", "HEAD", b.dir), "a release is not overwritten")
	})
	t.Run("binaries", b.testBinaries)
	t.Run("image", b.testImage)
	t.Run("npm", b.testNPM)
	t.Run("module", b.testModule)
}

// TestLicenses checks that a release contains nothing without a license.
func TestLicenses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text bytes.Buffer
	require.ErrorContains(
		t,
		appendLicenses(&text, "example.com/m v1.0.0", dir),
		"example.com/m v1.0.0 has no file with a license",
	)
	write(t, dir, "COPYING", "do what you like\n")
	require.NoError(t, appendLicenses(&text, "example.com/m v1.0.0", dir))
	require.Equal(t, "==== example.com/m v1.0.0: COPYING\n\ndo what you like\n\n", text.String())
}

// open finds the version of a release and unpacks its command.
func open(t *testing.T, dir string) *built {
	t.Helper()
	b := &built{dir: dir, command: filepath.Join(t.TempDir(), "agent-runner")}
	found, err := filepath.Glob(filepath.Join(dir, "agent-runner_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))
	require.NoError(t, err)
	require.Len(t, found, 1, "there are no binaries for this machine")
	b.number = strings.Split(filepath.Base(found[0]), "_")[1]
	b.version = "v" + b.number
	binary := b.content(t, platform{runtime.GOOS, runtime.GOARCH})["agent-runner"]
	require.NoError(t, os.WriteFile(b.command, binary, 0o755))
	return b
}

// content returns the files in the archive of a platform.
func (b *built) content(t *testing.T, p platform) map[string][]byte {
	t.Helper()
	name := filepath.Join(b.dir, "agent-runner_"+b.number+"_"+p.os+"_"+p.arch)
	files := map[string][]byte{}
	if p.os == "windows" {
		z, err := zip.OpenReader(name + ".zip")
		require.NoError(t, err)
		defer z.Close()
		for _, f := range z.File {
			r, err := f.Open()
			require.NoError(t, err)
			files[f.Name], err = io.ReadAll(r)
			require.NoError(t, err)
		}
		return files
	}
	z, err := gzip.NewReader(bytes.NewReader(read(t, name+".tar.gz")))
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// testBinaries checks the archive and the bill of materials of each platform, and that the command
// prints its version.
func (b *built) testBinaries(t *testing.T) {
	require.Contains(t, run(t, t.TempDir(), nil, b.command, "--version"), "agent-runner "+b.version+" (")
	for _, p := range platforms {
		files := b.content(t, p)
		name := "agent-runner"
		if p.os == "windows" {
			name += ".exe"
		}
		binary := files[name]
		info, err := buildinfo.Read(bytes.NewReader(binary))
		require.NoError(t, err)
		require.Equal(t, b.version, info.Main.Version)
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		require.Equal(
			t,
			[3]string{p.os, p.arch, "0"},
			[3]string{settings["GOOS"], settings["GOARCH"], settings["CGO_ENABLED"]},
		)
		if p.os == "linux" {
			f, err := elf.NewFile(bytes.NewReader(binary))
			require.NoError(t, err)
			for _, prog := range f.Progs {
				require.NotEqual(t, elf.PT_INTERP, prog.Type, "the binary is not static")
			}
		}
		require.Contains(t, string(files["LICENSE"]), "Apache License")
		require.Contains(t, string(files["NOTICES"]), "==== github.com/tetratelabs/wazero v")
		require.Contains(t, string(files["NOTICES"]), "==== Go: LICENSE")

		var bom cdx.BOM
		materials := read(t, b.dir, "agent-runner_"+b.number+"_"+p.os+"_"+p.arch+".cdx.json")
		require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(materials), cdx.BOMFileFormatJSON).Decode(&bom))
		sum := sha256.Sum256(binary)
		require.Equal(t, hex.EncodeToString(sum[:]), (*bom.Metadata.Component.Hashes)[0].Value)
		versions := map[string]string{}
		for _, c := range *bom.Components {
			versions[c.Name] = c.Version
		}
		require.Len(t, versions, len(info.Deps)+2, "the modules, the standard library and the engine of scripts")
		for _, name := range []string{"std", "github.com/tetratelabs/wazero", "modernc.org/sqlite", "quickjs-wasi"} {
			require.NotEmpty(t, versions[name], name)
		}
	}
}

// copied matches the line of a new module's tsconfig.json that names the copy of the SDK.
var copied = regexp.MustCompile(`,\s*"paths": .*`)

// testNPM installs the npm package into a new project, and checks and tests a middleware there.
func (b *built) testNPM(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, nil, b.command, "module", "new", "guard", "--lang", "ts")
	project := filepath.Join(dir, "guard")
	// The package replaces the copy of the SDK in a new module.
	require.NoError(t, os.RemoveAll(filepath.Join(project, "agent-middleware")))
	write(t, project, "package.json", `{"private": true, "type": "module"}`)
	write(t, project, "tsconfig.json", copied.ReplaceAllString(string(read(t, project, "tsconfig.json")), ""))
	run(t, project, nil, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-dev", "typescript@5.9.3",
		filepath.Join(b.dir, "agent-runner-middleware-"+b.number+".tgz"))
	installed := filepath.Join(project, "node_modules", "@agent-runner", "middleware")
	require.Contains(t, string(read(t, installed, "package.json")), `"version": "`+b.number+`"`)
	require.FileExists(t, filepath.Join(installed, "LICENSE"))
	run(t, project, nil, filepath.Join(project, "node_modules", ".bin", "tsc"), "-p", ".")
	require.FileExists(t, filepath.Join(b.dir, "agent-runner-client-"+b.number+".tgz"))
	run(t, dir, nil, b.command, "module", "test", "guard")

	source := string(read(t, project, "guard.ts"))
	write(t, project, "guard.ts", strings.Replace(source, "deny(", "deny(1, ", 1))
	out, err := exec.CommandContext(t.Context(), filepath.Join(project, "node_modules", ".bin", "tsc"), "-p", project).
		Output()
	require.Error(t, err, "the package's types are not used")
	require.Contains(t, string(out), "guard.ts")
}

// testModule uses the Go module from a module proxy: in a guest, in a program that embeds the host,
// and to install the command.
func (b *built) testModule(t *testing.T) {
	cache := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
	env := []string{
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "modules"),
		"GOPROXY=file://" + filepath.Join(b.dir, "goproxy") + ",file://" + filepath.Join(cache, "cache", "download") + "," +
			strings.TrimSpace(run(t, ".", nil, "go", "env", "GOPROXY")),
		"GONOSUMDB=" + modulePath, "GOFLAGS=-modcacherw -trimpath -mod=mod", "GOWORK=off", "CGO_ENABLED=0",
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/embedder\n\ngo 1.26.0\n")
	write(t, dir, "main.go", embedder)
	run(t, dir, env, "go", "get", modulePath+"@"+b.version)
	require.Equal(t, "from the host: hello\n", run(t, dir, env, "go", "run", "."))

	run(t, dir, nil, b.command, "module", "new", "guard", "--lang", "go")
	guard := filepath.Join(dir, "guard")
	require.NoError(t, os.RemoveAll(filepath.Join(guard, "agent-middleware")))
	run(t, guard, env, "go", "mod", "edit", "-dropreplace="+modulePath, "-require="+modulePath+"@"+b.version)
	require.NotContains(t, string(read(t, guard, "go.mod")), "replace")
	run(t, guard, env, b.command, "module", "test", ".")

	bin := t.TempDir()
	run(t, dir, append(env, "GOBIN="+bin), "go", "install", modulePath+"/cmd/agent-runner@"+b.version)
	require.Contains(t, run(t, dir, nil, filepath.Join(bin, "agent-runner"), "--version"), b.version)
}

// run runs a command in a folder, with variables that are added to the environment, and returns its
// standard output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	require.NoError(t, cmd.Run(), "%s\n%s%s", cmd, &out, &text)
	return out.String()
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return b
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
}

// embedder is a program that embeds the host.
const embedder = `package main

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

func main() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer h.Close(ctx)
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: scripted.New(scripted.Text("hello"))})
	if err != nil {
		panic(err)
	}
	defer a.Close()
	answer, err := a.Ask(ctx, "Hello?")
	if err != nil {
		panic(err)
	}
	fmt.Println("from the host:", answer)
}
`
