package replays

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/rerun"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// maxJournal limits the journals of runs that are replayed, in bytes. A replay takes several times as
// much memory.
const maxJournal = 16 << 20

// Errors of replays.
var (
	errTimeout = errors.New("the replay of the run took too long")
	errOther   = errors.New("the run is not of the agent")
)

// A tooLargeError reports a run whose journal is too large.
type tooLargeError struct{ bytes int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("its journal has %d bytes; runs of at most %d bytes are replayed", e.bytes, int64(maxJournal))
}

// A noEntryError reports an agent without the entry whose module is replaced.
type noEntryError struct{ entry string }

func (e *noEntryError) Error() string { return fmt.Sprintf("its agent had no entry %q", e.entry) }

// A candidateError is a failure of the candidate.
type candidateError struct{ error }

func (e *candidateError) Unwrap() error { return e.error }

// replay replays a run with its own modules and with the candidate, and compares both. It fails if
// the run or the candidate cannot be replayed, and if agentName is not empty and is not the name of
// the run's agent.
func (s *Service) replay(
	ctx context.Context,
	t *store.Tenant,
	agentName, id string,
	candidate candidateFile,
) (*api.ReplayedRun, error) {
	info, err := t.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	spec, err := agents.SpecOf(info)
	switch {
	case err != nil, agentName != "" && (spec.Agent != agentName || info.Agent != agentName):
		return nil, errOther
	case info.JournalBytes > maxJournal:
		return nil, &tooLargeError{info.JournalBytes}
	}
	run, err := rerun.Read(ctx, t.Journal(), id)
	if err != nil {
		return nil, err
	}
	tenant, err := s.o.Store.TenantInfo(ctx, t.ID())
	if err != nil {
		return nil, err
	}
	memory, release := s.runs.OpenMemory(t.ID(), tenant.Quota.MemoryBytes)
	defer release()
	ctx = account.WithContext(sandbox.WithTenant(ctx, s.o.Admission.BackgroundSharer(t.ID())), memory)
	own := rerun.NewPass(run, nil)
	stored := func(o *host.FileOptions) (*agentfile.File, error) { return s.agents.Rerun(ctx, t, spec, o) }
	if err := s.pass(ctx, t, own, stored, run.CheckModules); err != nil {
		return nil, err
	}
	other := rerun.NewPass(run, own)
	changed := func(o *host.FileOptions) (*agentfile.File, error) { return candidate(ctx, spec, o) }
	if err := s.pass(ctx, t, other, changed, nil); err != nil {
		return nil, &candidateError{err}
	}
	result := compare(own, other, runs.NewRedactor(info.Modules))
	result.Version = spec.Version
	return result, nil
}

// A candidateFile returns the file of the candidate. own is the spec of the run's agent.
type candidateFile func(ctx context.Context, own agents.Spec, o *host.FileOptions) (*agentfile.File, error)

// fileOf returns the candidateFile of a stored replay. The file is that of a version of the agent, or
// the run's own file with another module.
func (s *Service) fileOf(t *store.Tenant, candidate *api.ReplayCandidate) candidateFile {
	return func(ctx context.Context, own agents.Spec, o *host.FileOptions) (*agentfile.File, error) {
		file, err := s.agents.Rerun(ctx, t, specOf(own, candidate), o)
		if err != nil || candidate.Digest == "" {
			return file, err
		}
		if _, ok := agents.ReplaceModule(file, candidate.Entry, httpapi.TrimDigest(candidate.Digest)); !ok {
			return nil, &noEntryError{candidate.Entry}
		}
		return file, nil
	}
}

// pass replays a run with the agent of the file that read returns. If check is not nil, pass fails if
// check rejects the agent.
func (s *Service) pass(
	ctx context.Context,
	t *store.Tenant,
	p *rerun.Pass,
	read func(o *host.FileOptions) (*agentfile.File, error),
	check func(a *agent.Agent) error,
) error {
	o := host.FileOptions{GuardMCP: true, GuardModels: true}
	file, err := read(&o)
	if err != nil {
		return err
	}
	a, err := s.build(ctx, t, p, file, &o)
	if err != nil {
		return err
	}
	defer a.Close()
	if check != nil {
		if err := check(a.Agent); err != nil {
			return err
		}
	}
	return p.Run(ctx, a)
}

// build builds the agent of a file for a pass, once the tenant may build one.
func (s *Service) build(
	ctx context.Context,
	t *store.Tenant,
	p *rerun.Pass,
	file *agentfile.File,
	o *host.FileOptions,
) (*host.Agent, error) {
	done, err := s.o.Admission.Build(ctx, t.ID())
	if err != nil {
		return nil, err
	}
	defer done()
	p.Isolate(file, o)
	return s.o.Host.NewAgentFromFile(ctx, file, o)
}

// explain returns the result of a run that could not be replayed.
func (s *Service) explain(ctx context.Context, t *store.Tenant, run string, err error) *api.ReplayedRun {
	out := &api.ReplayedRun{Outcome: skipped}
	var candidate *candidateError
	var no *rerun.NotReplayableError
	var large *tooLargeError
	var entry *noEntryError
	var problem *httpapi.Problem
	var db *database.Error
	isCandidate := errors.As(err, &candidate)
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		out.Outcome, out.Reason = failed, fmt.Sprintf("the replay took longer than %v", s.o.RunTimeout)
	case errors.As(err, &no):
		out.Reason = no.Reason
	case errors.As(err, &large):
		out.Reason = large.Error()
	case errors.As(err, &entry):
		out.Reason = entry.Error()
	case errors.Is(err, errOther):
		out.Reason = err.Error()
	case errors.Is(err, journal.ErrNoRun):
		out.Reason = "the run was deleted"
	case errors.Is(err, store.ErrNoAgent):
		out.Reason = "a version of its agent was deleted"
	case errors.Is(err, store.ErrNoModule):
		out.Reason = "one of its modules was deleted"
	case errors.As(err, &problem):
		out.Reason = problem.Detail
	case errors.As(err, &db): // its text has the address of the database
		s.o.Logger.Error("replay run", "tenant", t.ID(), "run", run, "error", err)
		out.Reason = "the database failed; start the replay again"
	default:
		// The error may name modules of the operator's rings.
		out.Reason = "the run's own agent could not be built or run"
		if isCandidate {
			out.Outcome, out.Reason = failed, "the candidate could not be built or run"
		}
		if info, failure := t.Run(context.WithoutCancel(ctx), run); failure == nil {
			if hide := runs.NewRedactor(info.Modules); !hide.HidesAny() {
				out.Reason += ": " + err.Error()
			}
		}
	}
	if isCandidate && out.Outcome == skipped && entry == nil {
		out.Outcome = failed
	}
	return out
}

// figures returns the figures of a pass, and the event that ended its run, or nil if there was none.
// It does not count what hide hides.
func figures(p *rerun.Pass, hide *runs.Redactor) (f api.ReplayFigures, ended *abi.Event) {
	events := p.Events()
	for i := range events {
		e := hide.Event(&events[i])
		if e == nil {
			continue
		}
		switch e.Type {
		case abi.EventStepStarted:
			f.Steps++
		case abi.EventFault:
			f.Faults++
		case abi.EventDecision:
			if e.Decision.Decision == abi.Reject {
				f.Denials++
			}
		case abi.EventRunFinished:
			ended = e
			for _, s := range e.Entries {
				f.Fuel += s.Fuel
			}
		}
	}
	return f, ended
}
