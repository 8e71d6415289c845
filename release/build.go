package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const modulePath = "github.com/agent-runner/agent-runner"

// A platform is an operating system and an architecture by Go's names.
type platform struct{ os, arch string }

// platforms lists the platforms of the binaries. Only the platforms with Linux have container images.
var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
}

// A release is a release that is being built.
type release struct {
	source   string // a clone of the repository, at the commit
	binaries string // folder with the binaries
	out      string // folder with the finished files
	commit   string
	time     time.Time // time of the commit
	version  string    // version of the Go module, such as v1.2.3; for a commit without a tag, a pseudo-version
}

// buildRelease builds the release of a commit in the folder out, which it creates. After an error
// it removes the folder.
func buildRelease(ctx context.Context, repo, commit, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s already exists; remove it, or choose another folder", out)
	}
	temp, err := os.MkdirTemp("", "agent-runner-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	r := &release{source: filepath.Join(temp, "source"), binaries: filepath.Join(temp, "binaries"), out: out}
	if err := r.clone(ctx, repo, commit); err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return errors.Join(err, os.RemoveAll(out))
	}
	return nil
}

// clone clones the repository repo at a commit. A build of the clone contains no uncommitted
// change.
func (r *release) clone(ctx context.Context, repo, commit string) error {
	id, err := output(ctx, repo, "git", "rev-parse", "--verify", commit+"^{commit}")
	if err != nil {
		return err
	}
	r.commit = id
	if _, err := output(ctx, repo, "git", "clone", "--quiet", "--shared", "--no-checkout", ".", r.source); err != nil {
		return err
	}
	if _, err := output(ctx, r.source, "git", "checkout", "--quiet", "--detach", id); err != nil {
		return err
	}
	committed, err := output(ctx, r.source, "git", "show", "--no-patch", "--format=%cI", id)
	if err != nil {
		return err
	}
	if r.time, err = time.Parse(time.RFC3339, committed); err != nil {
		return err
	}
	r.time = r.time.UTC()
	return nil
}

// build builds all files from the clone.
func (r *release) build(ctx context.Context) error {
	for _, p := range platforms {
		if err := r.compile(ctx, p); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	images := map[platform][]file{}
	for _, p := range platforms {
		files, err := r.content(ctx, p)
		if err != nil {
			return err
		}
		if err := r.pack(p, files); err != nil {
			return err
		}
		if p.os == "linux" {
			images[p] = files
		}
	}
	if err := r.packImages(images); err != nil {
		return err
	}
	for _, step := range []func() error{r.packNPM, r.packModule} {
		if err := step(); err != nil {
			return err
		}
	}
	return writeChecksums(r.out)
}

// compile builds the command for a platform. It reads the release's version from the version control
// stamp of the binary.
func (r *release) compile(ctx context.Context, p platform) error {
	fmt.Printf("compiling for %s/%s\n", p.os, p.arch)
	binary := r.binary(p)
	if _, err := output(ctx, r.source, "env", "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOAMD64=v1",
		"GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off",
		"go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/agent-runner"); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	r.version = info.Main.Version
	if !strings.HasPrefix(r.version, "v") || strings.Contains(r.version, "+dirty") {
		return fmt.Errorf("go build stamped version %q, want one of a commit", r.version)
	}
	return nil
}

// pack writes the archive of a platform, and the bill of materials of the platform's binary.
func (r *release) pack(p platform, files []file) (err error) {
	name := r.name() + "_" + p.os + "_" + p.arch
	if p.os == "windows" {
		err = writeFile(filepath.Join(r.out, name+".zip"), func(w io.Writer) error { return writeZip(w, files, r.time) })
	} else {
		err = writeFile(filepath.Join(r.out, name+".tar.gz"), func(w io.Writer) error { return r.writeTarGzip(w, files) })
	}
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, name+".cdx.json"), func(w io.Writer) error { return r.writeSBOM(w, p) })
}

// writeTarGzip writes a compressed tar archive.
func (r *release) writeTarGzip(w io.Writer, files []file) error {
	z := gzip.NewWriter(w)
	return errors.Join(writeTar(z, files, r.time), z.Close())
}

// content returns the files of the archive of a platform: the binary and the licenses.
func (r *release) content(ctx context.Context, p platform) ([]file, error) {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	notices, err := r.notices(ctx, p)
	if err != nil {
		return nil, err
	}
	return []file{
		{name: filepath.Base(r.binary(p)), mode: 0o755, data: binary},
		{name: "LICENSE", mode: 0o644, data: license},
		{name: "NOTICES", mode: 0o644, data: notices},
	}, nil
}

// binary returns the path of the binary of a platform.
func (r *release) binary(p platform) string {
	name := "agent-runner"
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.binaries, p.os+"_"+p.arch, name)
}

// name returns the beginning of the names of files, such as agent-runner_1.2.3.
func (r *release) name() string { return "agent-runner_" + r.number() }

// number returns the version without the v of Go's versions.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// writeChecksums writes the SHA-256 sums of all files below a folder to checksums.txt in it, in the
// format of sha256sum.
func writeChecksums(dir string) error {
	var sums bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "checksums.txt"), sums.Bytes(), 0o644)
}

// output runs a command in the folder dir and returns its standard output without surrounding
// space. Its error contains the command's standard error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(text.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}
