package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// testImage checks the OCI archive, and serves a tenant from this machine's image: as an
// unprivileged user without capabilities, on a read-only root, with /data as the only volume.
func (b *built) testImage(t *testing.T) {
	image := b.image(t)
	if _, err := exec.LookPath("runc"); err != nil || os.Getuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: the image runs as root with runc only; install it with: apt-get install runc")
	}
	bundle := t.TempDir()
	rootfs := filepath.Join(bundle, "rootfs")
	unpack(t, mutate.Extract(image), rootfs)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	writeBundle(t, bundle, &config.Config, "--listen", "127.0.0.1:0", "--model", "echo")

	id := "agent-runner-release-" + strconv.Itoa(os.Getpid())
	container := exec.CommandContext(t.Context(), "runc", "run", "--bundle", bundle, id)
	container.Cancel = func() error { return exec.Command("runc", "kill", id, "KILL").Run() }
	key, err := container.StdoutPipe()
	require.NoError(t, err)
	log, err := container.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, container.Start())
	address, rest := serving(t, log)
	operator, err := bufio.NewReader(key).ReadString('\n')
	require.NoError(t, err)

	dir := t.TempDir()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "AGENT_RUNNER_SERVER=" + address}
	asTenant := func(key string) []string { return append(env, "AGENT_RUNNER_KEY="+strings.TrimSpace(key)) }
	run(t, dir, asTenant(operator), b.command, "tenants", "create", "acme", "--allow-model", "*")
	tenant := asTenant(run(t, dir, asTenant(operator), b.command, "keys", "create", "first", "--tenant", "acme"))
	run(t, dir, nil, b.command, "module", "new", "guard", "--lang", "ts")
	write(t, dir, "agent.yaml", "name: clerk\nmodel: {name: echo}\nmiddlewares:\n"+
		"  - module: guard/guard.ts\n    config: {tools: [calculator]}\n")
	run(t, dir, tenant, b.command, "agents", "apply", "agent.yaml")
	answer := run(t, dir, tenant, b.command, "runs", "start", "clerk", `calculator {"expression": "6 * 7"}`)
	require.NotContains(t, answer, "42")
	require.Contains(t, answer, "calculator")

	info, err := os.Stat(filepath.Join(rootfs, "data", "store", "agent-runner.db"))
	require.NoError(t, err)
	require.EqualValues(t, imageUser, info.Sys().(*syscall.Stat_t).Uid)
	run(t, dir, nil, "runc", "kill", id, "TERM")
	text, err := io.ReadAll(rest)
	require.NoError(t, err)
	require.NoError(t, container.Wait(), "%s", text)
}

// image returns the image for this machine from the OCI archive, and checks its digests.
func (b *built) image(t *testing.T) (image v1.Image) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	f, err := os.Open(filepath.Join(b.dir, "agent-runner_"+b.number+"_oci.tar"))
	require.NoError(t, err)
	defer f.Close()
	unpack(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	top, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	index, err = index.ImageIndex(top.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	var found []string
	for _, m := range manifest.Manifests {
		found = append(found, m.Platform.String())
		if m.Platform.Architecture == runtime.GOARCH {
			image, err = index.Image(m.Digest)
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{"linux/amd64", "linux/arm64"}, found)
	return image
}

// unpack unpacks a tar archive into a new folder. It sets the owners of the files if this user may do
// that.
func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(name, h.FileInfo().Mode().Perm()))
		} else {
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, os.WriteFile(name, b, h.FileInfo().Mode().Perm()))
		}
		if os.Getuid() == 0 {
			require.NoError(t, os.Lchown(name, h.Uid, h.Gid))
		}
	}
}

// writeBundle writes the configuration with which runc runs an image: the image's own configuration
// with additional arguments and the network of this machine.
func writeBundle(t *testing.T, bundle string, config *v1.Config, args ...string) {
	t.Helper()
	run(t, bundle, nil, "runc", "spec")
	var spec map[string]any
	require.NoError(t, json.Unmarshal(read(t, bundle, "config.json"), &spec))
	user, group, _ := strings.Cut(config.User, ":")
	process := spec["process"].(map[string]any)
	process["terminal"] = false
	process["args"] = append(append(config.Entrypoint, config.Cmd...), args...)
	process["env"] = config.Env
	process["cwd"] = config.WorkingDir
	process["user"] = map[string]any{"uid": json.Number(user), "gid": json.Number(group)}
	process["capabilities"] = map[string]any{}
	for volume := range config.Volumes {
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{
			"destination": volume, "type": "bind", "source": filepath.Join(bundle, "rootfs", volume),
			"options": []string{"bind", "rw", "nosuid", "nodev"},
		})
	}
	linux := spec["linux"].(map[string]any)
	var namespaces []any
	for _, n := range linux["namespaces"].([]any) {
		if n.(map[string]any)["type"] != "network" {
			namespaces = append(namespaces, n)
		}
	}
	linux["namespaces"] = namespaces
	b, err := json.Marshal(spec)
	require.NoError(t, err)
	write(t, bundle, "config.json", string(b))
}

var servingAt = regexp.MustCompile(`serving at (http://\S+),`)

// serving reads the log of a server until it contains the server's address. It returns the address
// and the rest of the log.
func serving(t *testing.T, log io.Reader) (address string, rest io.Reader) {
	t.Helper()
	var seen bytes.Buffer
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		seen.WriteString(line)
		require.NoError(t, err, "%s", &seen)
		if found := servingAt.FindStringSubmatch(line); found != nil {
			return found[1], lines
		}
	}
}
