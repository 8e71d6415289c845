// Package module loads WebAssembly modules and runs them as middlewares, in these steps:
//
//  1. [Loader.Load] reads the file. The sandbox checks that the module's imports and hooks are those
//     of the ABI and have the right types.
//  2. The host calls describe. The answer becomes part of the [Module].
//  3. [Configure] checks a configuration with the module's schema and calls configure. The module's
//     memory after that call is the image of a [Middleware], which can be an entry of a chain.
//  4. [Middleware.Open] begins a run, whose instances start from the image.
//  5. Each hook call uses an instance of the run in which no other call is in progress. The module's
//     transport makes the call.
//  6. Closing the session closes the instances.
//
// A transport defines how hooks are called and how they make host calls. The transports are native
// (package plain), extism and script. This package imports the transports and chooses one per
// module. The transports must not import this package. They use an [invoke.Invocation], which
// implements the host calls for all transports.
package module

import (
	"context"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/module/script"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// A Module is a loaded module. It is safe for concurrent use.
type Module struct {
	loader    *Loader
	source    source
	digest    string
	size      int64
	limits    policy.Limits
	transport transport
	readable  func(text string) string // changes logged text for human readers; nil leaves the text unchanged

	image  *sandbox.Image // the state of an instance after describe, from which other instances start
	desc   abi.Description
	hooks  []abi.Hook
	schema *jsonschema.Resolved // schema of the configuration; nil if the module has none
	packed *replay.PackedModule // the module in the form for fault bundles; nil if faults are not recorded

	once sync.Once // guards Close
}

// A transport defines how hooks are called and how they make host calls.
type transport interface {
	// Name returns the transport's name in [Info].
	Name() string
	// Start prepares a new instance for its first hook. The invocation has no hook.
	Start(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error
	// Pack prepares an instance before the sandbox takes an image of it, for example by freeing
	// memory.
	Pack(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error
	// HostBytes returns the maximum memory, in bytes, that the host needs for one call. It does not
	// include the instance and the messages that every transport passes.
	HostBytes(l *policy.Limits) int64
	// HookType returns the function type of the module's hooks.
	HookType() verify.FuncType
	// Call calls the invocation's hook with its pending input. The result failed reports whether
	// the module answered with an error. The error is a fault, an error of a host call that ends
	// the run, or the context's error.
	Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error)
}

// Name returns the name under which the module was loaded.
func (m *Module) Name() string { return m.source.name }

// BundleOf returns a script together with everything that the script imports. [Loader.LoadBytes]
// can load the result without the source files. BundleOf returns nil for other modules. The caller
// must not modify the result.
func BundleOf(m *Module) []byte {
	if s, ok := m.transport.(*script.Transport); ok {
		return s.Bundle
	}
	return nil
}

// Limits returns the module's limits, including defaults.
func (m *Module) Limits() policy.Limits { return m.limits }

// Close frees the module. Middlewares that were configured from the module remain usable. Further
// calls do nothing.
func (m *Module) Close() { m.once.Do(m.image.Close) }

func (m *Module) warn(text string) { m.source.warnings = append(m.source.warnings, text) }

// has reports whether the module exports the hook.
func (m *Module) has(h abi.Hook) bool { return m.image.HasExport(string(h)) }

// Info is the description of a module that has not run yet.
type Info struct {
	Path        string          `json:"path"`
	Digest      string          `json:"digest"` // SHA-256 of the module, or of a script's bundle, in hexadecimal
	Size        int64           `json:"size"`   // size of the module in bytes
	Transport   string          `json:"transport"`
	Description abi.Description `json:"description"` // the answer to describe; zero if the module has no describe
	Hooks       []abi.Hook      `json:"hooks"`       // hooks that runs call, in the order in which a run calls them
	Imports     []Power         `json:"imports"`
	Memory      MemoryInfo      `json:"memory"`
	Instances   string          `json:"instances"`          // how instances are reset between uses
	Warnings    []string        `json:"warnings,omitempty"` // problems that do not prevent loading, one sentence each
}

// MemoryInfo describes a module's linear memory, in bytes.
type MemoryInfo struct {
	First int64 `json:"first"` // initial size of an instance
	Most  int64 `json:"most"`  // maximum size of an instance
	Image int64 `json:"image"` // size of the image that instances start from; 0 if each is built anew
}

// Info returns the description of the module, with its imports and hooks.
func (m *Module) Info() Info {
	info := Info{
		Path: m.Name(), Digest: m.digest, Size: m.size, Transport: m.transport.Name(),
		Description: m.desc, Hooks: slices.Clone(m.hooks), Imports: powers(m.image.Imports()),
		Instances: m.image.Reset().Method, Warnings: slices.Clone(m.source.warnings),
	}
	info.Memory.First, info.Memory.Most = m.image.Memory()
	info.Memory.Image = m.image.Reset().ImageBytes
	return info
}
