package module

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/script"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// loadScript loads a bundled script.
func (l *Loader) loadScript(ctx context.Context, src source, bundle []byte, limits policy.Limits) (*Module, error) {
	limits, err := policy.WithDefaults(limits)
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", src.name, err)
	}
	limits.ModuleBytes = cmp.Or(limits.ModuleBytes, sandbox.DefaultModuleBytes)
	if limit := limits.ModuleBytes; int64(len(bundle)) > limit {
		return nil, refuse(
			src.name,
			fmt.Sprintf("has %d bytes including its imports, more than the limit module_bytes of %d", len(bundle), limit),
			"reduce its imports, or raise the limit",
		)
	}
	limits.StackBytes = cmp.Or(limits.StackBytes, script.DefaultStackBytes)
	limits.HookTime = cmp.Or(limits.HookTime, sandbox.DefaultHookTime)
	limits.Fuel = cmp.Or(limits.Fuel, sandbox.DefaultFuel)
	own := script.WithGrace(limits.Limits)
	own.ModuleBytes = int64(len(javascript.Engine())) // limits.ModuleBytes applies to the script, not to the engine
	image, err := l.sandbox.Load(ctx, src.name, javascript.Engine(), own)
	if err != nil {
		return nil, err
	}
	asked := limits.Limits
	limits.Limits = image.Limits()
	limits.ModuleBytes, limits.HookTime, limits.Fuel = asked.ModuleBytes, asked.HookTime, asked.Fuel
	s, err := script.New(bundle, limits.Limits)
	if err != nil {
		image.Close()
		return nil, refuse(src.name, err.Error(), "raise the limit")
	}
	sum := sha256.Sum256(bundle)
	m := &Module{
		loader:    l,
		source:    src,
		digest:    hex.EncodeToString(sum[:]),
		limits:    limits,
		image:     image,
		transport: s,
		readable:  s.Readable,
	}
	return l.finish(ctx, m, bundle)
}

// loadScriptFile loads a script from its source or its bundle.
func (l *Loader) loadScriptFile(ctx context.Context, path string, limits policy.Limits) (*Module, error) {
	text, err := readModule(path, limits)
	if err != nil {
		return nil, err
	}
	if javascript.IsBundle(text) {
		return l.loadScript(ctx, source{name: path}, text, limits)
	}
	s, err := javascript.FindSource(path)
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	return l.loadScriptSource(ctx, source{name: path}, s, limits)
}

func (l *Loader) loadScriptSource(
	ctx context.Context,
	src source,
	s javascript.Source,
	limits policy.Limits,
) (*Module, error) {
	bundle, err := l.bundle(ctx, src.name, s)
	if err != nil {
		return nil, err
	}
	src.warnings = append(src.warnings, bundle.Warnings...)
	return l.loadScript(ctx, src, bundle.Code, limits)
}

// BundleScript bundles the script in a file with everything that the script imports. The result is
// one JavaScript file, which Load accepts. If the file is already a bundle, BundleScript returns
// its content unchanged. BundleScript bundles in a child process if the loader uses child
// processes, and logs the warnings about the script.
func (l *Loader) BundleScript(ctx context.Context, path string) ([]byte, error) {
	text, err := readModule(path, policy.Limits{})
	if err != nil || javascript.IsBundle(text) {
		return text, err
	}
	s, err := javascript.FindSource(path)
	if err != nil {
		return nil, err
	}
	b, err := l.bundle(ctx, path, s)
	if err != nil {
		return nil, err
	}
	for _, w := range b.Warnings {
		l.log.Warn("module", "module", path, "warning", w)
	}
	return b.Code, nil
}

// bundle bundles a script. It does so in a child process if the loader uses child processes.
func (l *Loader) bundle(ctx context.Context, path string, s javascript.Source) (*javascript.Bundle, error) {
	bundle, err := l.bundleInChild(ctx, s)
	if errors.Is(err, sandbox.ErrNoChildren) {
		s.Guarded = true
		bundle, err = javascript.Build(s)
	}
	var mistake *javascript.ScriptError
	var refused *verify.RefusedError
	switch {
	case errors.As(err, &mistake):
		return nil, refuse(path, mistake.Text, "")
	case errors.As(err, &refused):
		return nil, refuse(path, refused.Reason, "the script, or what it imports, is too large or nested too deeply")
	case err != nil:
		return nil, fmt.Errorf("load module %s: %w", path, err)
	}
	return bundle, nil
}

// Limits of the child process that bundles a script. A script of 1 MiB takes less than 1 s of
// processor time and 150 MiB.
const (
	bundleMemory  = 512 << 20
	bundleCPUTime = 10 * time.Second
)

func (l *Loader) bundleInChild(ctx context.Context, s javascript.Source) (*javascript.Bundle, error) {
	input, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	job := child.Job{Name: javascript.JobName, Input: input}
	if s.Text == nil {
		job.Directory = s.Top()
	} else {
		job.MemoryBytes, job.CPUTime = bundleMemory, bundleCPUTime
	}
	output, err := l.sandbox.RunJob(ctx, job)
	if err != nil {
		return nil, err
	}
	return javascript.JobResult(output)
}
