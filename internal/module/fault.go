package module

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/script"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// fault returns an error of a call as a fault with all details except the entry. It returns err
// unchanged if err ends the run. That is the case, for example, if an inner middleware stopped the
// run during a host call of this module.
func (m *Module) fault(inv *invoke.Invocation, err error) error {
	if ending.Is(err) {
		return err
	}
	f := &ending.FaultError{
		Module: m.Name(),
		Digest: m.digest,
		Hook:   inv.Hook,
		Stage:  inv.Stage(err),
		Cause:  err,
		Stderr: slices.Clone(inv.Recent),
	}
	var guest *sandbox.FaultError
	var limit *policy.LimitError
	var script *script.Error
	switch {
	case errors.As(err, &script):
		f.Stack = strings.Join(script.Stack, "\n")
		if script.Limit != nil {
			f.Limit, f.Value = script.Limit.Limit, script.Limit.Value
		}
		f.Stderr = append(f.Stderr, script.Frame...)
	case errors.As(err, &guest):
		cause := *guest
		if cause.Module == "" { // the fault arose after the call
			cause.Module, cause.Digest = m.Name(), m.digest
		}
		cause.Export = "" // the fault names the hook already
		if !inv.Running() {
			f.Hook = abi.Hook(guest.Export) // such as _initialize; empty for the start function
			if strings.HasPrefix(guest.Export, javascript.Exports) {
				f.Hook = "" // the engine failed before it called a hook
			}
		}
		f.Cause, f.Stack = &cause, strings.Join(guest.Stack, "\n")
		f.Limit, f.Value = snakeCase(guest.Limit), guest.Value
		if len(f.Stderr) == 0 {
			f.Stderr = guest.Output
		}
	case errors.As(err, &limit):
		f.Limit, f.Value = limit.Limit, int64(limit.Max)
	}
	return f
}

// isOwn reports whether the module caused err.
func isOwn(err error) bool {
	var guest *sandbox.FaultError
	var limit *policy.LimitError
	var answer *invoke.AnswerError
	var script *script.Error
	var call *extism.CallError
	return errors.As(err, &call) || errors.As(err, &guest) || errors.As(err, &limit) || errors.As(err, &answer) ||
		errors.As(err, &script)
}

// snakeCase returns the configuration's name of a limit of the sandbox, such as hook_time for the
// field HookTime.
func snakeCase(field string) string {
	var b strings.Builder
	for i, c := range field {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
