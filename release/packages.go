package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// packNPM writes the npm package of the TypeScript SDK, with the version of the release.
func (r *release) packNPM(ctx context.Context) error {
	fmt.Println("packing the npm package")
	dir := filepath.Join(r.binaries, "npm")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.source, "guest-sdk", "typescript"))); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644); err != nil {
		return err
	}
	if _, err := output(ctx, dir, "npm", "pkg", "set", "version="+r.number()); err != nil {
		return err
	}
	_, err = output(ctx, dir, "npm", "pack", "--ignore-scripts", "--pack-destination", r.out)
	return err
}

// packModule writes the Go module as a module proxy serves it, below the folder goproxy.
func (r *release) packModule(context.Context) error {
	fmt.Println("packing the Go module")
	path, err := module.EscapePath(modulePath)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.out, "goproxy", filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{r.version, r.time})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(r.source, "go.mod"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(r.version + "\n"), r.version + ".info": info, r.version + ".mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, r.version+".zip"), func(w io.Writer) error {
		return zip.CreateFromVCS(w, module.Version{Path: modulePath, Version: r.version}, r.source, r.commit, "")
	})
}
