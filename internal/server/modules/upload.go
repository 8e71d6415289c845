package modules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/sse"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits of uploads, in bytes.
const (
	maxManifestExtra = 1 << 20
	progressBytes    = 1 << 20 // received between two progress events
)

var moduleType = reflect.TypeFor[api.Module]()

// An upload is a module that a tenant is uploading.
type upload struct {
	modules  *Service
	caller   *httpapi.Caller
	name     string
	version  string
	progress func(stage string, more map[string]any) // reports a stage to the client; never nil

	digest string // digest of the received bytes
	size   int64
}

// upload serves an upload. It responds with the module or, if the client accepts a stream of
// events, with progress events and then the module or a problem.
func (m *Service) upload(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	name, version, err := uploadName(r)
	if err != nil {
		return err
	}
	if limit := c.Info.Quota.UploadBytes; limit > 0 {
		if r.ContentLength > limit*4/3+maxManifestExtra {
			return tooLarge(limit)
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit*4/3+maxManifestExtra)
	}
	done, err := m.admission.Upload(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(m.timeouts.Upload))
	_ = control.SetWriteDeadline(time.Now().Add(2 * m.timeouts.Upload))
	u := &upload{modules: m, caller: c, name: name, version: version, progress: func(string, map[string]any) {}}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		shown, err := u.run(r)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		return httpapi.WriteJSON(w, shown)
	}
	// Full duplex allows progress events while the body is read.
	_ = control.EnableFullDuplex()
	events := sse.New(w, m.timeouts.Write) // a slow client must not hold a compile slot
	send := func(event string, data any) {
		if b, err := json.Marshal(data); err == nil {
			events.Send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, b))
		}
	}
	u.progress = func(stage string, more map[string]any) {
		if more == nil {
			more = map[string]any{}
		}
		more["stage"] = stage
		send("progress", more)
	}
	shown, err := u.run(r)
	if err != nil {
		send("problem", httpapi.LogProblem(r, err))
		return nil
	}
	send("module", shown)
	return nil
}

func tooLarge(limit int64) *httpapi.Problem {
	p := httpapi.NewProblem(api.CodeTooLarge, "the module has more than %d bytes, the tenant's quota upload_bytes", limit)
	p.Quota = "upload_bytes"
	return p
}

// run receives, checks and stores the module of a request.
func (u *upload) run(r *http.Request) (*api.Module, error) {
	file, remove, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := u.receive(file, r); err != nil {
		return nil, err
	}
	u.progress("received", map[string]any{"bytes": u.size, "digest": httpapi.DigestPrefix + u.digest})
	if why, blocked := u.modules.blocks.Reason(u.digest); blocked {
		return nil, httpapi.NewProblem(api.CodeBlocked, "the operator blocks module sha256:%s: %s", u.digest, why)
	}
	u.progress("waiting", nil)
	checked, err := u.modules.admission.Check(r.Context(), u.caller.Key.Tenant)
	if err != nil {
		return nil, err
	}
	defer checked()
	done, err := u.modules.admission.Compile(r.Context(), u.caller.Key.Tenant)
	if err != nil {
		return nil, err
	}
	defer done()
	content := make([]byte, u.size)
	if _, err := file.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return u.check(sandbox.WithTenant(r.Context(), u.modules.admission.Sharer(u.caller.Key.Tenant)), content,
		r.Header.Get("Content-Type"))
}

// receive writes the body to a file, and sets the upload's digest and size. It rejects an empty,
// incomplete or too large body.
func (u *upload) receive(file *os.File, r *http.Request) error {
	sum := sha256.New()
	received := int64(0)
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buffer)
		u.size += int64(n)
		_, _ = sum.Write(buffer[:n])
		if _, err := file.Write(buffer[:n]); err != nil {
			return err
		}
		if u.size-received >= progressBytes {
			received = u.size
			u.progress("receiving", map[string]any{"bytes": u.size})
		}
		var size *http.MaxBytesError
		switch {
		case err == io.EOF:
			u.digest = hex.EncodeToString(sum.Sum(nil))
			if u.size == 0 {
				return httpapi.NewProblem(api.CodeInvalid, "the body is empty; send the module's bytes")
			}
			return nil
		case errors.As(err, &size):
			if q := u.caller.Info.Quota.UploadBytes; q > 0 && q < u.modules.limit {
				return tooLarge(q)
			}
			return httpapi.NewProblem(api.CodeTooLarge, "the module has more than %d bytes", u.modules.limit)
		case err != nil:
			return httpapi.NewProblem(api.CodeInvalid, "the body is incomplete").WithCause(err)
		}
	}
}

// check verifies, compiles and describes the received content, and stores it.
func (u *upload) check(ctx context.Context, content []byte, contentType string) (*api.Module, error) {
	whole := len(content)
	name, content, warnings, err := detect(content, contentType)
	if err != nil {
		return nil, err
	}
	limit := u.modules.limit
	if q := u.caller.Info.Quota.UploadBytes; q > 0 && q < limit && int64(len(content)) > q {
		return nil, tooLarge(q)
	}
	if len(content) == whole &&
		bytes.HasPrefix(content, []byte("\x00asm")) { // the digest of other content changes when it is bundled or unpacked
		if err := u.caller.Tenant.CheckModuleQuota(ctx, u.digest, u.size); err != nil {
			return nil, err
		}
	}
	u.progress("compiling", nil)
	m, err := u.modules.host.LoadBytes(ctx, name, content, host.Limits{Limits: sandbox.Limits{ModuleBytes: limit}})
	var refused *verify.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, httpapi.NewProblem(api.CodeRefused, "%s", strings.TrimPrefix(refused.Error(), refused.Name+": "))
	case err != nil:
		return nil, err
	}
	defer m.Close()
	if why, blocked := u.modules.blocks.Reason(m.Info().Digest); blocked {
		return nil, httpapi.NewProblem(api.CodeBlocked, "the operator blocks module sha256:%s: %s", m.Info().Digest, why)
	}
	u.progress("described", nil)
	return u.store(ctx, m, content, warnings)
}

// store stores the content of a loaded module, and adds the module to the tenant's modules with the
// upload's name and version. It fails if the tenant's quota does not allow another module, or if
// another module has this name and version.
func (u *upload) store(ctx context.Context, m *module.Module, content []byte, warnings []string) (*api.Module, error) {
	kind := "wasm"
	if b := module.BundleOf(m); b != nil {
		kind, content = "script", b
	}
	about := describe(m)
	about.Warnings = append(about.Warnings, warnings...)
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	if err := u.caller.Tenant.CheckModuleQuota(ctx, m.Info().Digest, int64(len(content))); err != nil {
		return nil, err // otherwise its content would be stored without an owner
	}
	digest, err := u.modules.store.PutModule(ctx, content)
	if err != nil {
		return nil, err
	}
	version := u.version
	if version == "" {
		version = defaultVersion(about.Version, digest)
	}
	row := &store.TenantModule{Digest: digest, Kind: kind, Size: int64(len(content)), About: text}
	if err := u.caller.Tenant.PutModule(ctx, row, u.name, version); err != nil {
		return nil, err
	}
	stored, err := u.caller.Tenant.Module(ctx, digest)
	if err != nil {
		return nil, err
	}
	return u.modules.show(stored)
}

// moduleVersion matches the versions of modules.
var moduleVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$`)

func (m *Service) describeUpload(op *huma.Operation, schemas huma.Registry) {
	bytes := &huma.Schema{Type: "string", Format: "binary"}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/wasm": {
			Schema: bytes,
		}, "application/typescript": {Schema: bytes}, "application/javascript": {Schema: bytes},
		"application/vnd.extism.manifest+json": {Schema: bytes},
	}}
	text := func(name, about string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: about, Schema: &huma.Schema{Type: "string"}}
	}
	op.Parameters = []*huma.Param{
		text("name", "The module's name, such as redact. Default: none; the module has only its digest."),
		text(
			"version",
			"The version of that name. It cannot be changed later. Default: the version that the module reports, else the first 12 characters of its digest.",
		),
	}
	op.Responses["200"] = &huma.Response{Description: "The module", Content: map[string]*huma.MediaType{
		"application/json": {
			Schema: huma.SchemaFromType(schemas, moduleType),
		}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
}

// uploadName returns the requested name and version of an upload.
func uploadName(r *http.Request) (name, version string, err error) {
	q := r.URL.Query()
	name, version = q.Get("name"), q.Get("version")
	for parameter := range q {
		if parameter != "name" && parameter != "version" {
			return "", "", httpapi.NewProblem(api.CodeInvalid, "unknown parameter %q; want name or version", parameter)
		}
	}
	switch {
	case name == "" && version != "":
		return "", "", httpapi.NewProblem(api.CodeInvalid, "a version needs a name: ?name=NAME&version=%s", version)
	case name != "" && (!store.Name.MatchString(name) || isDigest(name)):
		return "", "", httpapi.NewProblem(api.CodeInvalid,
			"the name is %q; want up to 63 lowercase letters, digits, dots, dashes and underscores, and not a digest", name)
	case version != "" && !moduleVersion.MatchString(version):
		return "", "", httpapi.NewProblem(api.CodeInvalid,
			"the version is %q; want up to 64 letters, digits, dots, plus signs, dashes and underscores", version)
	}
	return name, version, nil
}

// defaultVersion returns the version of an upload that does not set one: the version that the module
// reports if it is valid, or else the beginning of the digest.
func defaultVersion(said, digest string) string {
	if moduleVersion.MatchString(said) {
		return said
	}
	return fmt.Sprintf("%.12s", digest)
}
