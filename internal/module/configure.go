package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

var _ chain.Middleware = (*Middleware)(nil)

// A Middleware is a module that was configured for an entry of a chain. It is
// safe for concurrent use.
type Middleware struct {
	module *Module
	entry  string
	config json.RawMessage
	grants Grants
	image  *sandbox.Image // configured

	served func(v *visit, took time.Duration) // hears of each call, when it has ended; may be nil
}

// A ConfigError says that a module does not take a configuration.
type ConfigError struct {
	Entry, Module string
	Err           error // begins with the path in the configuration, where there is one; a *chain.Fault if it faulted
}

// Error names the entry, the module and what is wrong.
func (e *ConfigError) Error() string {
	text := e.Err.Error()
	var fault *chain.Fault
	if errors.As(e.Err, &fault) {
		alone := *fault
		alone.Entry = "" // it stands there already
		text = alone.Error()
	}
	return fmt.Sprintf("configure %s (%s): %s", e.Entry, e.Module, text)
}

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// Configure checks a configuration, JSON, against the module's schema and
// calls the module's configure. Without one, or with null, it is {}; that of an
// Extism manifest is taken for the keys that config does not have.
//
// The error is a *ConfigError if the configuration is at fault, or the module
// in its configure. The caller closes the middleware after its last run.
func (m *Module) Configure(ctx context.Context, entry string, config json.RawMessage, grants Grants) (*Middleware, error) {
	refused := func(err error) error { return &ConfigError{entry, m.Name(), err} }
	config, err := m.source.configure(config)
	if err != nil {
		return nil, refused(err)
	}
	if err := checkConfig(m.schema, config); err != nil {
		return nil, refused(fmt.Errorf("config: %w", err))
	}
	input, err := abi.Marshal(abi.ConfigureInput{Entry: entry, Config: config})
	if err != nil {
		return nil, refused(err)
	}
	if len(input) > m.limits.InputBytes {
		return nil, refused(&limitError{"input_bytes", m.limits.InputBytes, fmt.Sprintf("a configuration of %d bytes", len(config)), ""})
	}
	mw := &Middleware{module: m, entry: entry, config: config, grants: grants}
	// Also without configure the entry gets an image of its own, so that no
	// instance serves two entries.
	mw.image, err = m.build(ctx, m.image, mw.buildVisit(), func(ctx context.Context, in *sandbox.Instance) error {
		if m.has(abi.HookConfigure) {
			v := m.buildVisit(abi.HookConfigure, input)
			v.config = config
			if err := m.callBuilding(ctx, in, v); err != nil {
				return err
			}
			if err := v.answer(&abi.ConfigureAnswer{}); err != nil {
				return err
			}
		}
		return m.transport.pack(ctx, in, m.buildVisit("", nil))
	})
	if err == nil {
		return mw, nil
	}
	var failed *abi.Error
	var fault *chain.Fault
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

// buildVisit is a call while the entry's image is built.
func (mw *Middleware) buildVisit() *visit {
	v := mw.module.buildVisit(abi.HookConfigure, nil)
	v.settings = mw.config
	return v
}

// A buildContext is a context in which a module finds the visit of building the entry's
// image: it is made then, since the image hardly ever has to be built again.
type buildContext struct {
	context.Context
	mw *Middleware
	v  *visit
}

// Value finds the visit, and whatever the context has. It is asked by one goroutine.
func (c *buildContext) Value(key any) any {
	if key != (visitKey{}) {
		return c.Context.Value(key)
	}
	if c.v == nil {
		c.v = c.mw.buildVisit()
	}
	return c.v
}

// configure fills in a manifest's configuration where config does not say
// otherwise.
func (s *source) configure(config json.RawMessage) (json.RawMessage, error) {
	if len(config) > 0 {
		if err := abi.Valid(config); err != nil {
			return nil, fmt.Errorf("config: not valid JSON: %w", err)
		}
	}
	none := len(config) == 0 || string(config) == "null"
	if none {
		config = rawObject
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
		b, err := abi.Marshal(value)
		if err != nil {
			return nil, err
		}
		merged[key] = b
	}
	maps.Copy(merged, own)
	return abi.Marshal(merged)
}

// Describe tells the chain which hooks to call.
func (mw *Middleware) Describe() chain.Description {
	d := chain.Description{Description: mw.module.desc, Digest: mw.module.Digest()}
	d.Hooks = mw.module.Hooks()
	return d
}

// Module is what was configured.
func (mw *Middleware) Module() *Module { return mw.module }

// Grants are the powers of the entry. Grants.Read belongs in its chain.Entry.
func (mw *Middleware) Grants() Grants { return mw.grants }

// Close frees the middleware's image. Sessions that are open go on. Closing
// twice does nothing.
func (mw *Middleware) Close() { mw.image.Close() }
