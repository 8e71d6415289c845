package module

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// fault makes what went wrong in a visit a fault that tells everything of it,
// but for the entry. Endings that the visit met in next are no faults of its own.
func (m *Module) fault(v *visit, err error) error {
	if chain.IsEnding(err) {
		return err
	}
	f := &chain.Fault{Module: m.Name(), Digest: m.Digest(), Hook: v.hook, Stage: v.stage(err), Cause: err, Stderr: slices.Clone(v.recent)}
	var guest *sandbox.Fault
	var limit *limitError
	var script *scriptError
	switch {
	case errors.As(err, &script):
		f.Stack = strings.Join(script.stack, "\n")
		if script.limit != nil {
			f.Limit, f.Value = script.limit.limit, script.limit.value
		}
		f.Stderr = append(f.Stderr, script.frame...)
	case errors.As(err, &guest):
		cause := *guest
		if cause.Module == "" { // it came up after the call
			cause.Module, cause.Digest = m.Name(), m.Digest()
		}
		cause.Export = "" // the fault names the hook already
		if !v.running() {
			f.Hook = abi.Hook(guest.Export) // which may be _initialize, or nothing for the start function
			if strings.HasPrefix(guest.Export, javascript.Exports) {
				f.Hook = "" // of the engine, before a hook is called
			}
		}
		f.Cause, f.Stack = &cause, strings.Join(guest.Stack, "\n")
		f.Limit, f.Value = snakeCase(guest.Limit), guest.Value
		if len(f.Stderr) == 0 {
			f.Stderr = guest.Output
		}
	case errors.As(err, &limit):
		f.Limit, f.Value = limit.limit, int64(limit.most)
	}
	return f
}

// stage says when in the visit err came up.
func (v *visit) stage(err error) chain.Stage {
	var guest *sandbox.Fault
	var answer *answerError
	switch {
	case v.hook == abi.HookDescribe:
		return chain.StageLoad
	case v.hook == abi.HookConfigure:
		return chain.StageConfigure
	case !v.entered:
		return chain.StageInput
	case errors.As(err, &answer):
		return chain.StageAnswer
	case v.inside, errors.As(err, &guest) && guest.Kind == sandbox.FaultBounds: // which only imports tell
		return chain.StageHostCall
	default:
		return chain.StageHook
	}
}

// isOwn reports whether err is something that the module did.
func isOwn(err error) bool {
	var guest *sandbox.Fault
	var limit *limitError
	var answer *answerError
	var script *scriptError
	var call *callError
	return errors.As(err, &call) || errors.As(err, &guest) || errors.As(err, &limit) || errors.As(err, &answer) || errors.As(err, &script)
}

// snakeCase writes the name of a field of the sandbox's limits as
// configurations do: hook_time.
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

// What a fault tells of the guest's last words.
const (
	recentLines = 16
	recentBytes = 1 << 10 // of each line
)

// shown is what stands for a character where a person reads it.
func shown(c rune) rune {
	if c == '\t' || unicode.IsPrint(c) {
		return c
	}
	return utf8.RuneError
}

// remember keeps what the guest printed or logged for a fault.
func (v *visit) remember(text string) {
	if len(text) > recentBytes {
		text = text[:recentBytes] + "…"
	}
	text = strings.Map(shown, text)
	if len(v.recent) == recentLines {
		v.recent = append(v.recent[:0], v.recent[1:]...)
	}
	v.recent = append(v.recent, text)
}
