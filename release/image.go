package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group of the images. It is not root. Other images without a
// distribution use the same number.
const imageUser = 65532

// packImages writes the OCI archive: an image for each platform, and their index. content holds the
// files of the platforms' archives.
func (r *release) packImages(content map[platform][]file) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if content[p] == nil {
			continue
		}
		image, err := r.image(p, content[p])
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	dir := filepath.Join(r.binaries, "oci")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "agent-runner:" + r.number(),           // for Podman and Skopeo
		"io.containerd.image.name":          "localhost/agent-runner:" + r.number(), // for Docker and containerd
	})); err != nil {
		return err
	}
	files, err := readFiles(dir)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, r.name()+"_oci.tar"), func(w io.Writer) error {
		return writeTar(w, files, r.time)
	})
}

// image returns the image of a platform: one layer on an empty base.
func (r *release) image(p platform, files []file) (v1.Image, error) {
	var content bytes.Buffer
	if err := writeTar(&content, imageFiles(files), r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "agent-runner/release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/agent-runner"},
		Cmd:        []string{"serve"},
		User:       "65532:65532",
		WorkingDir: "/data",
		Env: []string{
			"HOME=/data",
			"TMPDIR=/data/tmp", // /data is the only folder that the server writes to
			"AGENT_RUNNER_CACHE=/data/cache",
			"AGENT_RUNNER_STORE=/data/store/agent-runner.db",
			"AGENT_RUNNER_LISTEN=0.0.0.0:8080", // the address in the container, whose port the user may publish
		},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "agent-runner",
			"org.opencontainers.image.version":  r.number(),
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// imageFiles returns the files of an image. content begins with the binary; its other files go to
// /usr/share/doc/agent-runner. imageFiles adds certificate authorities, the image's user and group,
// and a folder for data that the user can write to.
func imageFiles(content []file) []file {
	files := slices.Clone(content)
	for i := range files[1:] {
		files[i+1].name = "usr/share/doc/agent-runner/" + files[i+1].name
	}
	return append([]file{
		{name: "data/", mode: 0o700, owner: imageUser},
		{name: "data/store/", mode: 0o700, owner: imageUser},
		{name: "data/tmp/", mode: 0o700, owner: imageUser},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: []byte("agent-runner:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, data: []byte("agent-runner:x:65532:65532::/data:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
		{name: "usr/", mode: 0o755},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/agent-runner/", mode: 0o755},
	}, files...)
}

// authorities returns Mozilla's certificate authorities in PEM. It omits authorities that Mozilla
// trusts only for some of their certificates, because a PEM file cannot express this restriction.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer never fails
		}
	}
	return text.Bytes()
}

// readFiles reads the files below a folder.
func readFiles(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files = append(files, file{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		b, err := os.ReadFile(path)
		files = append(files, file{name: filepath.ToSlash(name), mode: 0o644, data: b})
		return err
	})
	return files, err
}
