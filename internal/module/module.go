// Package module makes middlewares out of WebAssembly modules. A module's way
// from bytes to answers:
//
//  1. [Loader.Load] reads the file, and the sandbox verifies it against the
//     ABI: imports and hooks with their exact types.
//  2. describe is called once. What it says becomes part of the [Module].
//  3. [Module.Configure] checks a configuration against the module's schema
//     and calls configure. What the module built in memory then is the image
//     of a [Middleware], which a chain takes as an entry.
//  4. [Middleware.Open] begins a run: its instances start from the image.
//  5. Each hook call gets an instance of the run that has no live call,
//     through the module's transport. Nothing is ever re-entered.
//  6. The session's end closes the instances.
//
// A transport defines how hooks and host calls cross the boundary between host
// and guest: native, extism and script, each in a package of that name. This
// package imports them and picks one per module. They never import it; they
// work on an [invoke.Invocation], which implements the host calls once for all
// transports.
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
	readable  func(text string) string // rewrites what it logs for people; nil leaves it unchanged

	image  *sandbox.Image // described
	desc   abi.Description
	hooks  []abi.Hook
	schema *jsonschema.Resolved // of its configuration; nil if it has none
	packed *replay.PackedModule // for bundles of its faults; nil if none are kept

	once sync.Once // for Close
}

// A transport is the form in which hooks and host calls cross the border.
type transport interface {
	// name is what inspection calls it.
	Name() string
	// start makes a new instance ready for its first hook, in a visit without one.
	Start(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error
	// pack makes an instance ready for an image of it to be taken.
	Pack(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error
	// holds is the most that the host holds in a call beside the instance, and the
	// messages that every transport hands over, in bytes.
	HostBytes(l *policy.Limits) int64
	// hook is the type of its exports that are hooks.
	HookType() verify.FuncType
	// call calls the visit's hook, whose input is pending, and tells whether the
	// module says that it failed. Other errors are faults, endings that a host
	// call met, or those of the context.
	Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error)
}

// Name is what the module was loaded as.
func (m *Module) Name() string { return m.source.name }

// Digest is the SHA-256 of the module's bytes, in hexadecimal. Those of a script
// are its bundle.
func (m *Module) Digest() string { return m.digest }

// Bundle is a script with all that it imports, which [Loader.LoadBytes] loads
// again without its files; nil for other modules. It must not be changed.
func (m *Module) Bundle() []byte {
	if s, ok := m.transport.(*script.Transport); ok {
		return s.Bundle
	}
	return nil
}

// Description is what the module says of itself; the zero value without describe.
func (m *Module) Description() abi.Description { return m.desc }

// Hooks are those that are called in runs, in the order in which a run meets them.
func (m *Module) Hooks() []abi.Hook { return slices.Clone(m.hooks) }

// Limits are the limits the module runs under, defaults filled in.
func (m *Module) Limits() policy.Limits { return m.limits }

// Warnings are what whoever loads the module should know, a sentence each.
func (m *Module) Warnings() []string { return slices.Clone(m.source.warnings) }

// Close frees the module. Middlewares that were configured go on. Closing
// twice does nothing.
func (m *Module) Close() { m.once.Do(m.image.Close) }

func (m *Module) warn(text string) { m.source.warnings = append(m.source.warnings, text) }

// has reports whether the module exports a hook.
func (m *Module) has(h abi.Hook) bool { return m.image.HasExport(string(h)) }

// Info is all there is to know of a module before it runs.
type Info struct {
	Path        string          `json:"path"`
	Digest      string          `json:"digest"` // SHA-256, hexadecimal
	Size        int64           `json:"size"`   // bytes
	Transport   string          `json:"transport"`
	Description abi.Description `json:"description"`
	Hooks       []abi.Hook      `json:"hooks"` // that are called in runs
	Imports     []Power         `json:"imports"`
	Memory      MemoryInfo      `json:"memory"`
	Instances   string          `json:"instances"` // how they are made clean between uses
	Warnings    []string        `json:"warnings,omitempty"`
}

// MemoryInfo tells of a module's linear memory, in bytes.
type MemoryInfo struct {
	First int64 `json:"first"` // what an instance has at first
	Most  int64 `json:"most"`  // what it may grow to
	Image int64 `json:"image"` // what is kept for instances to begin with; 0 if each is made anew
}

// Info tells what the module is and what it can do.
func (m *Module) Info() Info {
	info := Info{
		Path: m.Name(), Digest: m.Digest(), Size: m.size, Transport: m.transport.Name(),
		Description: m.desc, Hooks: m.Hooks(), Imports: powers(m.image.Imports()),
		Instances: m.image.Reset().Method, Warnings: m.Warnings(),
	}
	info.Memory.First, info.Memory.Most = m.image.Memory()
	info.Memory.Image = m.image.Reset().ImageBytes
	return info
}
