package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/schema"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

var _ hook.Middleware = (*Middleware)(nil)

// A Middleware is a module configured for an entry of a chain. It is safe for concurrent use.
type Middleware struct {
	module *Module
	entry  string
	config json.RawMessage
	grants policy.Grants
	image  *sandbox.Image // state after configure, from which the entry's instances start

	onCall func(CallReport) // called after each hook call; nil if OnCall was not called
}

// A CallReport describes one hook call and the resources that it used.
type CallReport struct {
	Hook              abi.Hook
	Time              time.Duration // excludes waiting for models, tools and other middlewares
	Fuel              uint64
	BytesIn, BytesOut int64 // copied to and from the guest
	HostCalls         int
	Grown             int64 // growth of the instance's memory, in bytes
	Err               error // why the call failed; nil if it succeeded
	Faulted           bool  // whether Err is a fault of this module, and not an error of next
}

// OnCall makes the middleware call fn at the end of each hook call. It must be called before the
// first run.
func (mw *Middleware) OnCall(fn func(CallReport)) { mw.onCall = fn }

// A ConfigError says that an entry could not be configured because its configuration is invalid or
// the module failed.
type ConfigError struct {
	Entry, Module string
	Err           error // starts with the path in the configuration, if known; a *ending.FaultError if configure faulted
}

// Error names the entry, the module and the cause.
func (e *ConfigError) Error() string {
	text := e.Err.Error()
	var fault *ending.FaultError
	if errors.As(e.Err, &fault) {
		alone := *fault
		alone.Entry = "" // the message names it already
		text = alone.Error()
	}
	return fmt.Sprintf("configure %s (%s): %s", e.Entry, e.Module, text)
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Configure checks a JSON configuration against the schema of m, and calls the module's configure
// hook, if the module has one. An empty configuration and null mean {}. Keys that are missing in
// the configuration get the values of the module's Extism manifest, if it has one.
//
// The error is a *ConfigError, unless ctx is done or the loader is closed. The caller must close
// the middleware after its last run.
func Configure(
	ctx context.Context,
	m *Module,
	entry string,
	config json.RawMessage,
	grants policy.Grants,
) (*Middleware, error) {
	refused := func(err error) error { return &ConfigError{entry, m.Name(), err} }
	config, err := m.source.configure(config)
	if err != nil {
		return nil, refused(err)
	}
	if err := schema.Check(m.schema, config); err != nil {
		return nil, refused(fmt.Errorf("config: %w", err))
	}
	input, err := abijson.Marshal(contract.ConfigureInput{Entry: entry, Config: config})
	if err != nil {
		return nil, refused(err)
	}
	if len(input) > m.limits.InputBytes {
		return nil, refused(&policy.LimitError{
			Limit: "input_bytes",
			Max:   m.limits.InputBytes,
			What:  fmt.Sprintf("a configuration of %d bytes", len(config)),
		})
	}
	mw := &Middleware{module: m, entry: entry, config: config, grants: grants}
	// An entry gets its own image even if the module has no configure, so that no instance serves
	// two entries.
	mw.image, err = m.build(ctx, m.image, mw.buildInvocation(), func(ctx context.Context, in *sandbox.Instance) error {
		if m.has(contract.HookConfigure) {
			inv := m.buildInvocation(contract.HookConfigure, input)
			inv.Config = config
			if err := m.callBuilding(ctx, in, inv); err != nil {
				return err
			}
			if err := inv.DecodeAnswer(&contract.ConfigureAnswer{}); err != nil {
				return err
			}
		}
		return m.transport.Pack(ctx, in, m.buildInvocation("", nil))
	})
	if err == nil {
		return mw, nil
	}
	var failed *abi.Error
	var fault *ending.FaultError
	switch {
	case ctx.Err() != nil || errors.Is(err, sandbox.ErrClosed):
		return nil, fmt.Errorf("configure %s (%s): %w", entry, m.Name(), err)
	case errors.As(err, &failed):
		return nil, refused(failed)
	case errors.As(err, &fault):
		fault.Entry = entry
		return nil, refused(fault)
	default:
		return nil, refused(err)
	}
}

// buildInvocation returns the invocation for the host calls that the module makes while the entry's
// image is built.
func (mw *Middleware) buildInvocation() *invoke.Invocation {
	inv := mw.module.buildInvocation(contract.HookConfigure, nil)
	inv.BuildConfig = mw.config
	return inv
}

// configure merges config with the configuration of the Extism manifest. Keys of config take
// precedence. An empty config and null mean {}. configure returns an error if config is not valid
// JSON, or if it is not an object although the manifest has a configuration.
func (s *source) configure(config json.RawMessage) (json.RawMessage, error) {
	if len(config) > 0 {
		if err := jsoncodec.Valid(config); err != nil {
			return nil, fmt.Errorf("config: not valid JSON: %w", err)
		}
	}
	none := len(config) == 0 || string(config) == "null"
	if none {
		config = json.RawMessage("{}")
	}
	if len(s.config) == 0 {
		return config, nil
	}
	var own map[string]json.RawMessage
	if err := json.Unmarshal(config, &own); err != nil {
		return nil, errors.New("config: want an object, since the manifest has a configuration of its own")
	}
	merged := map[string]json.RawMessage{}
	for key, value := range s.config {
		b, err := abijson.Marshal(value)
		if err != nil {
			return nil, err
		}
		merged[key] = b
	}
	maps.Copy(merged, own)
	return abijson.Marshal(merged)
}

// Describe returns the module's description, digest and hooks for the chain.
func (mw *Middleware) Describe() hook.Description {
	d := hook.Description{Description: mw.module.desc, Digest: mw.module.digest, SetLabels: mw.grants.SetLabels}
	d.Hooks = slices.Clone(mw.module.hooks)
	return d
}

// Module returns the module that was configured.
func (mw *Middleware) Module() *Module { return mw.module }

// Grants returns the entry's grants. The caller copies Grants.Read to hook.Entry.Read.
func (mw *Middleware) Grants() policy.Grants { return mw.grants }

// Close frees the middleware's image. Open sessions keep their instances, but cannot create new
// ones. Further calls of Close do nothing.
func (mw *Middleware) Close() { mw.image.Close() }
