package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How uploads are taken.
const (
	manifestExtra = 1 << 20
	progressEvery = 1 << 20 // bytes
)

var moduleType = reflect.TypeFor[Module]()

// An upload is on its way.
type upload struct {
	modules *modules
	caller  *Caller
	name    string
	version string
	tell    func(stage string, more map[string]any) // may be called at any stage

	digest string // of what came
	size   int64
}

// upload takes a module in.
func (m *modules) upload(w http.ResponseWriter, r *http.Request, c *Caller) error {
	name, version, err := nameOf(r)
	if err != nil {
		return err
	}
	if most := c.Info.Quota.UploadBytes; most > 0 {
		if r.ContentLength > most*4/3+manifestExtra {
			return tooLarge(most)
		}
		r.Body = http.MaxBytesReader(w, r.Body, most*4/3+manifestExtra)
	}
	done, err := m.admission.Upload(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(m.times.upload))
	_ = control.SetWriteDeadline(time.Now().Add(2 * m.times.upload))
	u := &upload{modules: m, caller: c, name: name, version: version, tell: func(string, map[string]any) {}}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		shown, err := u.run(r)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		return writeJSON(w, shown)
	}
	// What is told while the body still arrives does not end the body.
	_ = control.EnableFullDuplex()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(event string, data any) {
		b, err := json.Marshal(data)
		if err == nil {
			_ = control.SetWriteDeadline(time.Now().Add(m.times.part)) // it may hold a turn that others wait for
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, b)
			_ = control.Flush()
		}
	}
	u.tell = func(stage string, more map[string]any) {
		if more == nil {
			more = map[string]any{}
		}
		more["stage"] = stage
		send("progress", more)
	}
	shown, err := u.run(r)
	if err != nil {
		p := *problemOf(err)
		p.Instance = instance(r)
		note(r, p.cause)
		send("problem", &p)
		return nil
	}
	send("module", shown)
	return nil
}

func tooLarge(most int64) *Problem {
	p := problem(codeTooLarge, "the module has more than %d bytes, the tenant's quota upload_bytes", most)
	p.Quota = "upload_bytes"
	return p
}

// run is an upload from its first byte to what is kept.
func (u *upload) run(r *http.Request) (*Module, error) {
	file, remove, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := u.receive(file, r); err != nil {
		return nil, err
	}
	u.tell("received", map[string]any{"bytes": u.size, "digest": digestPrefix + u.digest})
	if why, blocked := u.modules.blocks.reason(u.digest); blocked {
		return nil, problem(codeBlocked, "the operator blocks module sha256:%s: %s", u.digest, why)
	}
	u.tell("waiting", nil)
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
	var shown *Module
	admission.RunLowPriority(func() {
		shown, err = u.take(sandbox.Sharing(r.Context(), u.modules.admission.Sharer(u.caller.Key.Tenant)), content, r.Header.Get("Content-Type"))
	})
	return shown, err
}

// newSpool opens a file for what comes. Where the system allows that it has no name any
// more: nothing of it is left when this process is killed.
func newSpool() (file *os.File, remove func(), err error) {
	if file, err = os.CreateTemp("", "agent-runner-upload-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(file.Name()) == nil {
		return file, func() { _ = file.Close() }, nil
	}
	return file, func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}, nil
}

// receive writes the body to a file.
func (u *upload) receive(file *os.File, r *http.Request) error {
	sum := sha256.New()
	told := int64(0)
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buffer)
		u.size += int64(n)
		_, _ = sum.Write(buffer[:n])
		if _, err := file.Write(buffer[:n]); err != nil {
			return err
		}
		if u.size-told >= progressEvery {
			told = u.size
			u.tell("receiving", map[string]any{"bytes": u.size})
		}
		var size *http.MaxBytesError
		switch {
		case err == io.EOF:
			u.digest = hex.EncodeToString(sum.Sum(nil))
			if u.size == 0 {
				return problem(codeInvalid, "the body is empty; send the module's bytes")
			}
			return nil
		case errors.As(err, &size):
			if q := u.caller.Info.Quota.UploadBytes; q > 0 && q < u.modules.limit {
				return tooLarge(q)
			}
			return problem(codeTooLarge, "the module has more than %d bytes", u.modules.limit)
		case err != nil:
			p := problem(codeInvalid, "the body is incomplete")
			p.cause = err
			return p
		}
	}
}

// take verifies, compiles and describes what came, and keeps it.
func (u *upload) take(ctx context.Context, content []byte, contentType string) (*Module, error) {
	whole := len(content)
	name, content, warnings, err := unwrap(content, contentType)
	if err != nil {
		return nil, err
	}
	most := u.modules.limit
	if q := u.caller.Info.Quota.UploadBytes; q > 0 && q < most && int64(len(content)) > q {
		return nil, tooLarge(q)
	}
	if len(content) == whole && bytes.HasPrefix(content, []byte("\x00asm")) { // what others come to is not known yet
		if err := u.caller.Tenant.CheckModuleQuota(ctx, u.digest, u.size); err != nil {
			return nil, err
		}
	}
	u.tell("compiling", nil)
	m, err := u.modules.host.LoadBytes(ctx, name, content, host.Limits{Limits: sandbox.Limits{ModuleBytes: most}})
	var refused *sandbox.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, problem(codeRefused, "%s", strings.TrimPrefix(refused.Error(), refused.Name+": "))
	case err != nil:
		return nil, err
	}
	defer m.Close()
	if why, blocked := u.modules.blocks.reason(m.Digest()); blocked {
		return nil, problem(codeBlocked, "the operator blocks module sha256:%s: %s", m.Digest(), why)
	}
	u.tell("described", nil)
	return u.keep(ctx, m, content, warnings)
}

// keep stores a module that was loaded.
func (u *upload) keep(ctx context.Context, m *module.Module, content []byte, warnings []string) (*Module, error) {
	kind := "wasm"
	if b := m.Bundle(); b != nil {
		kind, content = "script", b
	}
	about := describe(m)
	about.Warnings = append(about.Warnings, warnings...)
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	if err := u.caller.Tenant.CheckModuleQuota(ctx, m.Digest(), int64(len(content))); err != nil {
		return nil, err // or it would be kept for nobody
	}
	digest, err := u.modules.store.PutModule(ctx, content)
	if err != nil {
		return nil, err
	}
	version := u.version
	if version == "" {
		version = versionOf(about.Version, digest)
	}
	if err := u.caller.Tenant.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: kind, Size: int64(len(content)), About: text}, u.name, version); err != nil {
		return nil, err
	}
	kept, err := u.caller.Tenant.Module(ctx, digest)
	if err != nil {
		return nil, err
	}
	return u.modules.show(kept)
}

// unwrap finds out what came: WebAssembly and bundles say so themselves, a
// script is told by its type, and a manifest is an object of JSON. The name is
// what the loader goes by.
func unwrap(content []byte, contentType string) (name string, module []byte, warnings []string, err error) {
	if bytes.HasPrefix(content, []byte("\x00asm")) {
		return "module.wasm", content, nil, nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/typescript", "text/typescript", "text/x-typescript":
		return "module.ts", content, nil, nil
	case "application/javascript", "text/javascript", "text/x-javascript":
		return "module.js", content, nil, nil
	}
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '{' {
		module, warnings, err = manifest(trimmed)
		return "module.wasm", module, warnings, err
	}
	return "", nil, nil, problem(codeRefused, "not WebAssembly (which starts with \\0asm) and not an Extism manifest; a script needs the header Content-Type: application/typescript, or application/javascript")
}

// manifest takes the module out of an Extism manifest. What else is in there is
// the agent's to say here: one module has one digest, whatever stood around it.
func manifest(b []byte) (module []byte, warnings []string, err error) {
	var m struct {
		Wasm []struct {
			Data []byte `json:"data"`
			Hash string `json:"hash"`
			Path string `json:"path"`
			URL  string `json:"url"`
		} `json:"wasm"`
		Config map[string]string `json:"config"`
		Hosts  []string          `json:"allowed_hosts"`
		Memory json.RawMessage   `json:"memory"`
		Time   json.RawMessage   `json:"timeout_ms"`
	}
	if err := readJSON(b, &m); err != nil {
		return nil, nil, problem(codeRefused, "manifest: %v", err)
	}
	if len(m.Wasm) != 1 {
		return nil, nil, problem(codeRefused, "manifest: wasm has %d modules; want one", len(m.Wasm))
	}
	w := m.Wasm[0]
	if w.Path != "" || w.URL != "" || len(w.Data) == 0 {
		return nil, nil, problem(codeRefused, `manifest: want the module in the manifest, as "data" in base64: the server does not fetch paths or URLs`)
	}
	sum := sha256.Sum256(w.Data)
	if got := hex.EncodeToString(sum[:]); w.Hash != "" && !strings.EqualFold(got, w.Hash) {
		return nil, nil, problem(codeRefused, "manifest: hash mismatch: the module's SHA-256 is %s", got)
	}
	if len(m.Config) > 0 {
		warnings = append(warnings, "the manifest's config is not kept: give it as config in agent.yaml")
	}
	if len(m.Hosts) > 0 {
		warnings = append(warnings, "the manifest's allowed_hosts grant nothing: grant http:HOST in agent.yaml")
	}
	if len(m.Memory) > 0 || len(m.Time) > 0 {
		warnings = append(warnings, "the manifest's limits are not kept: give them as limits in agent.yaml")
	}
	return w.Data, warnings, nil
}
