package module

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/schema"
	"github.com/agent-runner/agent-runner/internal/module/script"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// maxDescription is the maximum size of the answer to describe, in bytes.
const maxDescription = 512 << 10

// maxText is the maximum length of the field "description" in the answer to describe, in bytes.
const maxText = 4 << 10

// maxNames is the maximum number of names in each list of the answer to describe.
const maxNames = 256

// prepare calls describe, if the module exports it, and checks the answer. After prepare, the
// module's image is the state after _initialize and describe.
func (m *Module) prepare(ctx context.Context) error {
	if !slices.ContainsFunc(contract.Hooks(), m.has) {
		return refuse(m.Name(), "exports no hook, so the host would never call it", "export one of "+joinHooks(calledHooks()))
	}
	output, err := m.describe(ctx)
	if err != nil {
		return m.refusal(err)
	}
	if len(output) > maxDescription {
		return refuse(m.Name(), fmt.Sprintf("describe: the answer has %d bytes", len(output)),
			fmt.Sprintf("at most %d are allowed", maxDescription))
	}
	if len(output) > 0 {
		unknown, err := abijson.Decode(output, &m.desc)
		if err != nil {
			return refuse(m.Name(), "describe: the answer: "+err.Error(), "")
		}
		for _, key := range unknown {
			m.warn("describe: unknown key " + key)
		}
	}
	return m.checkDescription()
}

// describe calls the module's describe, if it has one, and returns the answer. It replaces the
// module's image with an image of the state after the call.
func (m *Module) describe(ctx context.Context) ([]byte, error) {
	var output []byte
	var once sync.Once // a module that cannot be reset is described again for each instance
	described, err := m.build(
		ctx,
		m.image,
		m.buildInvocation(contract.HookDescribe, nil),
		func(ctx context.Context, in *sandbox.Instance) error {
			if err := m.transport.Start(ctx, in, m.buildInvocation("", nil)); err != nil {
				return err
			}
			if !m.has(contract.HookDescribe) {
				return nil
			}
			inv := m.buildInvocation(contract.HookDescribe, []byte("{}"))
			if err := m.callBuilding(ctx, in, inv); err != nil {
				return err
			}
			once.Do(func() { output = inv.Output })
			return nil
		},
	)
	if err != nil {
		return nil, err
	}
	m.image.Close()
	m.image = described
	return output, nil
}

// build makes an instance of the image from, runs setup on the instance, and returns an image of
// the resulting state. inv answers the host calls that the module makes during setup; almost all of
// the answers are errors. An error that the module causes is an *ending.FaultError.
func (m *Module) build(
	ctx context.Context,
	from *sandbox.Image,
	inv *invoke.Invocation,
	setup func(context.Context, *sandbox.Instance) error,
) (*sandbox.Image, error) {
	print := func(line []byte) { inv.Print(line) }
	prepare := from.Prepare
	if _, plugin := m.transport.(extism.Transport); plugin {
		prepare = from.PrepareAnew // a plug-in can read its configuration during start-up
	}
	image, err := prepare(inv.Context(ctx), sandbox.InstanceConfig{Stdout: print, Stderr: print, Seed: []byte(m.digest)},
		setup)
	if err != nil && isOwn(err) {
		err = m.fault(inv, err)
	}
	return image, err
}

// buildInvocation returns the invocation for a hook that is called while an image is built.
func (m *Module) buildInvocation(hook abi.Hook, input []byte) *invoke.Invocation {
	return &invoke.Invocation{Hook: hook, Limits: &m.limits, Pending: input, Readable: m.readable,
		LogFunc: func(level int32, text string) { m.logBuilding(hook, level, text) }}
}

// logBuilding writes log text of the module to the operator's log. The level is the module's level,
// but at most warn, because the error level is reserved for the host.
func (m *Module) logBuilding(hook abi.Hook, level int32, text string) {
	at := slog.Level(
		min(max(level, contract.LogDebug), contract.LogWarn)-1,
	) * 4 // slog's levels are those of the ABI, times four
	m.loader.log.Log(context.Background(), at, "a module logs while it is loaded", "module", m.Name(),
		"hook", string(hook), "module_level", contract.LogLevel(level), "text", strings.ToValidUTF8(text, "\ufffd"))
}

// callBuilding calls describe or configure. It returns an *abi.Error if the module answers with
// one.
func (m *Module) callBuilding(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error {
	failed, err := m.transport.Call(ctx, in, inv)
	switch {
	case err != nil:
		return err
	case !failed:
		return nil
	}
	e, err := inv.DecodeFailure()
	if err != nil {
		return err
	}
	return e
}

// refusal returns an error from building an image as a *verify.RefusedError if the module caused
// the error. It wraps all other errors.
func (m *Module) refusal(err error) error {
	var failed *abi.Error
	var fault *ending.FaultError
	refused := &verify.RefusedError{Name: m.Name(), Err: err}
	switch {
	case errors.As(err, &fault):
		refused.Reason = fault.Error()
		if fault.Hook == "" {
			refused.Reason = "its start function: " + refused.Reason
		}
		var script *script.Error
		if errors.As(fault.Cause, &script) {
			refused.Reason = strings.Join(append([]string{script.Text}, script.Frame...), "\n")
		}
	case errors.As(err, &failed):
		refused.Reason = "describe failed: " + failed.Error()
	default:
		return fmt.Errorf("load module %s: %w", m.Name(), err)
	}
	return refused
}

// features returns the names other than hooks that a module may list in requires. These are the
// names of the ABI's imports and "hold_stream".
func features() []string {
	out := []string{"hold_stream"}
	for _, i := range plain.Imports() {
		out = append(out, i.Name)
	}
	slices.Sort(out)
	return out
}

// calledHooks returns the hooks that this host calls in runs.
func calledHooks() []abi.Hook {
	return slices.DeleteFunc(contract.Hooks(), func(h abi.Hook) bool {
		switch h {
		case contract.HookDescribe, contract.HookConfigure:
			return true
		default:
			return false
		}
	})
}

func joinHooks(hooks []abi.Hook) string {
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = string(h)
	}
	return strings.Join(names, ", ")
}

// checkDescription validates the module's description, selects the hooks to call, and compiles the
// schema of the configuration.
func (m *Module) checkDescription() error {
	d := &m.desc
	for _, t := range []struct{ name, text string }{{"name", d.Name}, {"version", d.Version}} {
		if len(t.text) > contract.MaxName {
			return refuse(m.Name(), fmt.Sprintf("describe: %s has %d bytes", t.name, len(t.text)),
				fmt.Sprintf("at most %d are allowed", contract.MaxName))
		}
		if strings.ContainsFunc(t.text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return refuse(m.Name(), fmt.Sprintf("describe: %s is %q", t.name, t.text), "remove characters that do not print")
		}
	}
	if len(d.Description) > maxText {
		return refuse(m.Name(), fmt.Sprintf("describe: description has %d bytes", len(d.Description)),
			fmt.Sprintf("at most %d are allowed", maxText))
	}
	for name, n := range map[string]int{"requires": len(d.Requires), "hooks": len(d.Hooks), "events": len(d.Events)} {
		if n > maxNames {
			return refuse(m.Name(), fmt.Sprintf("describe: %s has %d names", name, n),
				fmt.Sprintf("at most %d are allowed", maxNames))
		}
	}
	switch d.Messages {
	case "", contract.MessagesFull, contract.MessagesLazy, contract.MessagesNone:
	default:
		return refuse(m.Name(), fmt.Sprintf("describe: messages is %.64q", d.Messages), "want full, lazy or none")
	}
	for _, t := range d.Events {
		if !slices.Contains(contract.EventTypes(), t) {
			return refuse(m.Name(), fmt.Sprintf("describe: events names %.64q, which is not an event", t),
				fmt.Sprintf("there are %s", strings.Trim(fmt.Sprint(contract.EventTypes()), "[]")))
		}
	}
	if err := m.checkRequires(); err != nil {
		return err
	}
	if err := m.chooseHooks(); err != nil {
		return err
	}
	m.warnOfSpelling()
	var err error
	if m.schema, err = schema.Compile(d.ConfigSchema); err != nil {
		return refuse(m.Name(), "describe: config_schema: "+err.Error(), "")
	}
	return nil
}

func (m *Module) checkRequires() error {
	known := append(calledHooks(), contract.HookDescribe, contract.HookConfigure)
	for _, r := range m.desc.Requires {
		if !slices.Contains(known, abi.Hook(r)) && !slices.Contains(features(), r) {
			return refuse(m.Name(), fmt.Sprintf("describe: requires %.64q, which this host does not have", r),
				fmt.Sprintf("this host has the hooks %s, and the features %s", joinHooks(known), strings.Join(features(), ", ")))
		}
	}
	return nil
}

// chooseHooks sets the hooks that the host calls: those that the description lists, or all exported
// hooks if the description lists none.
func (m *Module) chooseHooks() error {
	m.hooks = []abi.Hook{}
	wanted := m.has
	if m.desc.Hooks != nil {
		for _, h := range m.desc.Hooks {
			switch {
			case !contract.Known(h):
				return refuse(m.Name(), fmt.Sprintf("describe: hooks names %.64q, which is not a hook", h),
					"the hooks are "+joinHooks(contract.Hooks()))
			case !m.has(h):
				return refuse(m.Name(), fmt.Sprintf("describe: hooks names %s, which the module does not export", h),
					"export it, or remove it from the list")
			}
		}
		wanted = func(h abi.Hook) bool { return slices.Contains(m.desc.Hooks, h) }
	}
	for _, h := range contract.Hooks() {
		switch {
		case !wanted(h) || h == contract.HookDescribe || h == contract.HookConfigure:
		case !slices.Contains(calledHooks(), h):
			m.warn(fmt.Sprintf("%s is not called by this version of the host", h))
		default:
			m.hooks = append(m.hooks, h)
		}
	}
	return nil
}
