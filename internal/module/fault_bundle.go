package module

import (
	"log/slog"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// recorder returns a new recorder for one call. It returns nil if faults are not recorded.
func (m *Module) recorder() *replay.Recorder {
	if m.loader.faults == nil {
		return nil
	}
	return &replay.Recorder{}
}

// bundle writes a bundle for a fault, and logs its path or the error. It writes none for faults
// whose cause is the run and not the module: an open circuit breaker, and the limits on instances,
// nesting and the run's fuel.
func (s *session) bundle(inv *invoke.Invocation, f *ending.FaultError) {
	m := s.mw.module
	if f.Stage == ending.StageBreaker || f.Limit == "instances" || f.Limit == "run_fuel" || f.Limit == "nesting" {
		return
	}
	if !inv.Entered {
		inv.Recorder.Complete(inv.Recording(false))
	}
	b := &replay.Bundle{
		Time: time.Now().UTC(), Module: m.Name(), Digest: m.digest, Entry: f.Entry, Run: s.run,
		Config: replay.Blob(s.mw.config), Grants: policy.GrantStrings(s.mw.grants), Limits: m.limits,
		Fault: replay.Fault{
			Stage:  f.Stage,
			Cause:  ending.FaultText(f),
			Limit:  f.Limit,
			Value:  f.Value,
			Stderr: f.Stderr,
			Judged: inv.Err == nil,
		},
	}
	inv.Recorder.Fill(b)
	if f.Stack != "" {
		b.Fault.Stack = strings.Split(f.Stack, "\n")
	}
	path, err := m.loader.faults.Write(b, m.packed)
	log := m.loader.log.With("module", m.Name(), "entry", f.Entry, "hook", string(f.Hook))
	if err != nil {
		log.Warn("could not record a fault", slog.Any("error", err))
		return
	}
	log.Warn("recorded a fault; agent-runner module replay reproduces it", "bundle", path)
}
