package module

import (
	"log/slog"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// recorder returns one if faults of the module are to be kept.
func (m *Module) recorder() *replay.Recorder {
	if m.loader.faults == nil {
		return nil
	}
	return &replay.Recorder{}
}

// bundle keeps a fault. Faults that tell of the run alone, and not of the
// module, are left out: those of the breaker, of too many calls at once, and of
// the work of all calls.
func (s *session) bundle(inv *invoke.Invocation, f *ending.FaultError) {
	m := s.mw.module
	if f.Stage == ending.StageBreaker || f.Limit == "instances" || f.Limit == "run_fuel" || f.Limit == "nesting" {
		return
	}
	if !inv.Entered {
		inv.Recorder.Complete(inv.Recording(false))
	}
	b := &replay.Bundle{
		Time: time.Now().UTC(), Module: m.Name(), Digest: m.Digest(), Entry: f.Entry, Run: s.run,
		Config: replay.Blob(s.mw.config), Grants: s.mw.grants.Strings(), Limits: m.limits,
		Fault: replay.Fault{Stage: f.Stage, Cause: f.Text(), Limit: f.Limit, Value: f.Value, Stderr: f.Stderr, Judged: inv.Err == nil},
	}
	inv.Recorder.Fill(b)
	if f.Stack != "" {
		b.Fault.Stack = strings.Split(f.Stack, "\n")
	}
	path, err := m.loader.faults.Write(b, m.packed)
	log := m.loader.log.With("module", m.Name(), "entry", f.Entry, "hook", string(f.Hook))
	if err != nil {
		log.Warn("a fault could not be kept", slog.Any("error", err))
		return
	}
	log.Warn("a fault was kept; agent-runner module replay reproduces it", "bundle", path)
}
