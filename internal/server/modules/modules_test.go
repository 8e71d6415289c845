package modules_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

func TestUpload(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	b := servertest.Wasm(t, "wrap.wasm")
	var m, again api.Module
	r := f.PushModule(f.Acme, "?name=wrap&version=1.0", b, "application/wasm")
	require.Equal(t, 200, r.Status, string(r.Body))
	require.NoError(t, json.Unmarshal(r.Body, &m))
	require.Equal(t, "wasm", m.Kind)
	require.Equal(t, int64(len(b)), m.SizeBytes)
	require.Equal(t, []api.ModuleName{{Name: "wrap", Version: "1.0"}}, m.Names)
	require.NotEmpty(t, m.About.Hooks)
	require.NotEmpty(t, m.About.Powers)
	require.Positive(t, m.About.Limits.Fuel)

	for _, ref := range []string{m.Digest, httpapi.TrimDigest(m.Digest), "wrap", "wrap@1.0"} {
		f.OK("GET", "/v1/modules/"+ref, f.Acme, nil, &again)
		require.Equal(t, m, again, ref)
	}
	f.Send("GET", "/v1/modules/wrap@2.0", f.Acme, nil).Problem(t, 404)
	f.PushModule(f.Acme, "?name=wrap&version=1.0", servertest.Wasm(t, "own.wasm"), "application/wasm").Problem(t, 409)
	require.Equal(
		t,
		200,
		f.PushModule(f.Acme, "?name=wrap&version=2.0", servertest.Wasm(t, "own.wasm"), "application/wasm").Status,
	)
	f.OK("GET", "/v1/modules/wrap", f.Acme, nil, &again)
	require.NotEqual(t, m.Digest, again.Digest, "a name is its newest version")

	// Another tenant uploads the same module. Neither tenant can detect the other.
	f.Send("GET", "/v1/modules/"+m.Digest, f.Beta, nil).Problem(t, 404)
	require.Equal(t, 200, f.PushModule(f.Beta, "", b, "application/wasm").Status)
	f.OK("GET", "/v1/modules/"+m.Digest, f.Beta, nil, &again)
	require.Empty(t, again.Names)
	f.OK("DELETE", "/v1/modules/"+m.Digest, f.Beta, nil, nil)
	f.OK("GET", "/v1/modules/"+m.Digest, f.Acme, nil, nil)
}

func TestUploadScript(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	r := f.PushModule(f.Acme, "?name=shout", []byte(servertest.TypedModule), "application/typescript")
	require.Equal(t, 200, r.Status, string(r.Body))
	var m api.Module
	require.NoError(t, json.Unmarshal(r.Body, &m))
	require.Equal(t, "script", m.Kind)
	require.Equal(t, "javascript", m.About.Transport)
	loaded, release, err := f.Services.Modules.Acquire(
		t.Context(),
		f.Store.Tenant("acme"),
		httpapi.TrimDigest(m.Digest),
		host.Limits{},
	)
	require.NoError(t, err, "stored modules load again")
	require.Equal(t, httpapi.TrimDigest(m.Digest), loaded.Info().Digest)
	release()
	require.Contains(
		t,
		f.PushModule(f.Acme, "", []byte("export default {"), "application/typescript").Problem(t, 422).Detail,
		"module.ts:1",
	)
	f.PushModule(f.Acme, "", []byte(`import x from "fs"; export default {}`), "text/javascript").Problem(t, 422)
}

func TestUploadIsRejected(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	own := servertest.Wasm(t, "own.wasm")
	data, err := json.Marshal(
		map[string]any{
			"wasm":          []any{map[string]any{"data": own}},
			"config":        map[string]string{"a": "b"},
			"allowed_hosts": []string{"*"},
		},
	)
	require.NoError(t, err)
	r := f.PushModule(f.Acme, "", data, "application/json")
	require.Equal(t, 200, r.Status, string(r.Body))
	require.Contains(t, string(r.Body), "config is ignored")
	require.Contains(t, string(r.Body), "allowed_hosts are ignored")

	for body, want := range map[string]string{
		"":                                  "empty",
		"hello":                             "not WebAssembly",
		"\x00asm":                           "",
		"\x00asm\x01\x00\x00\x00\xff\xff":   "",
		`{"wasm":[{"path":"/etc/passwd"}]}`: "does not fetch",
		`{"wasm":[{"url":"http://169.254.169.254/"}]}`: "does not fetch",
		`{"wasm":[]}`: "want one",
		`{"wasm":[{"data":"AGFzbQ==","hash":"00"}]}`:                     "hash mismatch",
		`{"wasm":` + strings.Repeat("[", 200) + strings.Repeat("]", 200): "nested",
		string(own[:len(own)/2]):                                         "",
	} {
		p := f.PushModule(f.Acme, "", []byte(body), "application/octet-stream").Problem(t, 422, body)
		require.Contains(t, p.Detail, want)
		require.NotEmpty(t, p.Detail)
	}
	for _, query := range []string{
		"?version=1", "?name=A", "?name=../x", "?name=x&version=a/b", "?mdoel=x", "?name=" + strings.Repeat("a", 64),
	} {
		f.PushModule(f.Acme, query, own, "application/wasm").Problem(t, 422, query)
	}
	f.PushModule(f.Acme, "", make([]byte, 13<<20), "application/wasm").Problem(t, 413)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"upload_bytes": 10}}, nil)
	require.Equal(t, "upload_bytes", f.PushModule(f.Acme, "", own, "application/wasm").Problem(t, 413).Quota)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"modules": 1}}, nil)
	require.Equal(
		t,
		"modules",
		f.PushModule(f.Acme, "", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Problem(t, 429).Quota,
	)
	var list struct{ Modules []api.Module }
	f.OK("GET", "/v1/modules", f.Acme, nil, &list)
	require.Len(t, list.Modules, 1, "rejected modules are not stored")
}

// TestHostileUploads checks that the upload of a module that the sandbox rejects fails with status
// 422 and a reason.
func TestHostileUploads(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f := servertest.New(t)
	files, err := filepath.Glob("../../../testdata/modules/refused/*.wasm")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotEmpty(t, f.PushModule(f.Acme, "", b, "application/wasm").Problem(t, 422, file).Detail, file)
	}
}

// TestUploadProgress checks the events of a successful and of a rejected upload.
func TestUploadProgress(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	follow := func(b []byte) string {
		r := f.Send("PUT", "/v1/modules", f.Acme, b, "Accept", "text/event-stream", "Content-Type", "application/wasm")
		require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
		return string(r.Body)
	}
	got := follow(servertest.Wasm(t, "wrap.wasm"))
	at := -1
	for _, stage := range []string{
		`"stage":"received"`, `"stage":"compiling"`, `"stage":"described"`, "event: module\ndata: {",
	} {
		next := strings.Index(got, stage)
		require.Greater(t, next, at, "%s in %s", stage, got)
		at = next
	}
	got = follow(append([]byte("\x00asm"), make([]byte, 3<<20)...))
	require.Contains(t, got, `"stage":"receiving"`)
	require.Contains(t, got, "event: problem\ndata: {")
	require.NotContains(t, got, "event: module")
}

// TestIncompleteUpload checks that an upload that is canceled before its body is complete stores
// nothing, and that the next upload succeeds.
func TestIncompleteUpload(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	body, w := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, "PUT", f.URL+"/v1/modules", body)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+f.Acme)
	done := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	_, err = w.Write(bytes.Repeat([]byte("x"), 100_000))
	require.NoError(t, err)
	cancel()
	require.NoError(t, w.CloseWithError(io.ErrUnexpectedEOF)) // the client may be waiting for it
	require.Error(t, <-done)
	f.PushModule(f.Acme, "", servertest.Wasm(t, "own.wasm"), "application/wasm")
	var list struct{ Modules []api.Module }
	f.OK("GET", "/v1/modules", f.Acme, nil, &list)
	require.Len(t, list.Modules, 1)
}

func TestBlockedUpload(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	b := servertest.Wasm(t, "own.wasm")
	var m api.Module
	require.NoError(t, json.Unmarshal(f.PushModule(f.Acme, "", b, "application/wasm").Body, &m))
	f.OK("PUT", "/v1/blocks/"+m.Digest, f.Operator, map[string]any{"reason": "it leaks"}, nil)
	require.Contains(t, f.PushModule(f.Beta, "", b, "application/wasm").Problem(t, 403).Detail, "it leaks")
	f.OK("GET", "/v1/modules/"+m.Digest, f.Acme, nil, &m)
	require.Equal(t, "it leaks", m.Blocked)
	_, _, err := f.Services.Modules.Acquire(
		t.Context(),
		f.Store.Tenant("acme"),
		httpapi.TrimDigest(m.Digest),
		host.Limits{},
	)
	require.ErrorContains(t, err, "it leaks")
}

// TestUnusedModulesAreDeleted checks that a module is deleted once no tenant has it.
func TestUnusedModulesAreDeleted(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var m api.Module
	for _, key := range []string{f.Acme, f.Beta} {
		require.NoError(t, json.Unmarshal(f.PushModule(key, "", servertest.Wasm(t, "own.wasm"), "application/wasm").Body, &m))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f.OK("DELETE", "/v1/modules/"+m.Digest, f.Acme, nil, nil)
	go f.Services.Modules.DeleteUnused(ctx, time.Millisecond, -time.Hour)
	_, _, err := f.Services.Modules.Acquire(ctx, f.Store.Tenant("beta"), httpapi.TrimDigest(m.Digest), host.Limits{})
	require.NoError(t, err, "another tenant has it")
	f.OK("DELETE", "/v1/modules/"+m.Digest, f.Beta, nil, nil)
	require.Eventually(t, func() bool {
		_, err := f.Store.Module(ctx, httpapi.TrimDigest(m.Digest))
		return errors.Is(err, store.ErrNoModule)
	}, 10*time.Second, time.Millisecond)
}

// TestTenantsShareModules checks that tenants with the same module share its loaded form. Errors
// have each tenant's own name of the module.
func TestTenantsShareModules(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	const sized = `export default { name: "sized", configSchema: { type: "object", properties: { n: { type: "integer" } } }, beforeModel() {} };`
	for key, name := range map[string]string{f.Acme: "first", f.Beta: "second"} {
		f.Upload(key, name, sized)
		require.Equal(
			t,
			200,
			f.Apply(key, "a", "model: {name: m}\nmiddlewares:\n- module: "+name+"\n- {name: again, module: "+name+"}\n").Status,
		)
		r := f.Apply(key, "b", "model: {name: m}\nmiddlewares:\n- {name: x, module: "+name+", config: {n: many}}\n")
		require.Contains(t, r.Problem(t, 422).Detail, "configure x ("+name+"): config")
	}
	require.Equal(t, 1, f.Services.Modules.CloseIdle())
}
