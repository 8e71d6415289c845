package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// packNPM writes the npm packages of the TypeScript SDK and of the client, with the version of the release. It
// does not use npm, whose archives differ from version to version.
func (r *release) packNPM() error {
	fmt.Println("packing the npm packages")
	if err := r.packNPMFolder("middleware", "guest-sdk", "typescript"); err != nil {
		return err
	}
	return r.packNPMFolder("client", "host", "client", "typescript")
}

// packNPMFolder writes the npm package @agent-runner/name in a folder of the source. Its license is that of
// the source.
func (r *release) packNPMFolder(name string, folder ...string) error {
	dir := filepath.Join(append([]string{r.source}, folder...)...)
	manifest, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return err
	}
	var described struct {
		Version string
		Files   []string
	}
	if err := json.Unmarshal(manifest, &described); err != nil {
		return err
	}
	version := []byte(`"version": "` + described.Version + `"`)
	if bytes.Count(manifest, version) != 1 {
		return fmt.Errorf("package.json: want the text %s once", version)
	}
	manifest = bytes.Replace(manifest, version, []byte(`"version": "`+r.number()+`"`), 1)
	files := []file{{name: "package/package.json", mode: 0o644, data: manifest}}
	for _, path := range append([]string{"README.md", "LICENSE"}, described.Files...) {
		from := dir
		if path == "LICENSE" {
			from = r.source
		}
		b, err := os.ReadFile(filepath.Join(from, path))
		if err != nil {
			return err
		}
		files = append(files, file{name: "package/" + filepath.Base(path), mode: 0o644, data: b})
	}
	return writeFile(filepath.Join(r.out, "agent-runner-"+name+"-"+r.number()+".tgz"), func(w io.Writer) error {
		return r.writeTarGzip(w, files)
	})
}

// packModule writes the Go module as a module proxy serves it, below the folder goproxy.
func (r *release) packModule() error {
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
