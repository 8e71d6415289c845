package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// engineDir is the folder of the engine of scripts, the only part of the binaries that is not Go.
const engineDir = "internal/module/javascript/engine"

// engineSource matches the version of the npm package with the engine, and the engine's SHA-256, in
// the script that fetches it.
var engineSource = regexp.MustCompile(`(?m)^version=(\S+)\nengine=([0-9a-f]{64})$`)

// writeSBOM writes the bill of materials of a binary in CycloneDX's JSON: the Go modules that the
// linker recorded in it, Go's standard library, and the engine of scripts.
func (r *release) writeSBOM(w io.Writer, p platform) error {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	product := goModule(info.Main.Path, info.Main.Version)
	product.Type = cdx.ComponentTypeApplication
	product.Hashes = sha256Hash(hex.EncodeToString(sum[:]))

	parts := []cdx.Component{goModule("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := goModule(m.Path, m.Version)
		part.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
		parts = append(parts, part)
	}
	engine, err := r.engine()
	if err != nil {
		return err
	}
	parts = append(parts, engine)
	var refs []string
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}

	bom := cdx.NewBOM()
	// The UUID has version 8, whose content is free, and is derived from a hash of the binary, so
	// that the same binary has the same serial number.
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-8%x-8%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &product,
		Properties: &[]cdx.Property{
			{Name: "git.commit", Value: r.commit}, {Name: "GOOS", Value: p.os}, {Name: "GOARCH", Value: p.arch},
		},
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// goModule returns the component for the Go module with the given path and version.
func goModule(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
}

// engine returns the component of the engine of scripts.
func (r *release) engine() (cdx.Component, error) {
	script, err := os.ReadFile(filepath.Join(r.source, engineDir, "build.sh"))
	if err != nil {
		return cdx.Component{}, err
	}
	found := engineSource.FindSubmatch(script)
	if found == nil {
		return cdx.Component{}, errors.New(engineDir + "/build.sh names no version and SHA-256 of the engine")
	}
	version := string(found[1])
	url := "pkg:npm/quickjs-wasi@" + version
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: "quickjs-wasi", Version: version, PackageURL: url,
		Hashes: sha256Hash(string(found[2])),
	}, nil
}

func sha256Hash(sum string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

// licenseNames matches the names of files with licenses and notices.
var licenseNames = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// notices returns the licenses of everything that is linked into the binary of a platform.
func (r *release) notices(ctx context.Context, p platform) ([]byte, error) {
	list, err := output(ctx, r.source, "env", "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}",
		"./cmd/agent-runner")
	if err != nil {
		return nil, err
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(list + "\n")))
	root, err := output(ctx, r.source, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, line := range append(modules, "Go\t"+root, "The engine of scripts\t"+filepath.Join(r.source, engineDir)) {
		title, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue // a package of this module or of the standard library
		}
		if err := appendLicenses(&text, title, dir); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// appendLicenses appends the files with licenses in dir to text, below the given title. It fails if
// dir has none, because a release of software without a license is not allowed.
func appendLicenses(text *bytes.Buffer, title, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseNames.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(text, "==== %s: %s\n\n%s\n\n", title, e.Name(), bytes.TrimSpace(b))
	}
	if !found {
		return fmt.Errorf("%s has no file with a license; remove the dependency, or ask its authors for one", title)
	}
	return nil
}
