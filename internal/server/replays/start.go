package replays

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits on the runs of a replay.
const (
	defaultRuns = 100
	maxScanned  = 10_000 // runs that are read to find those that match
)

var runID = regexp.MustCompile(`^run_[A-Za-z0-9_-]{1,80}$`)

// start stores a replay, which a server executes soon.
func (s *Service) start(ctx context.Context, c *httpapi.Caller, in *startReplayInput) (*replayOutput, error) {
	candidate, err := s.candidate(ctx, c.Tenant, in.Agent, &in.Body)
	if err != nil {
		return nil, err
	}
	var ids []string
	if err := s.o.Admission.Read(ctx, c.Tenant.ID(), false, func() (err error) {
		ids, err = selectRuns(ctx, c.Tenant, in.Agent, &in.Body.Runs)
		return err
	}); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, httpapi.NewProblem(api.CodeInvalid,
			"no finished run of agent %s matches; list them with GET /v1/runs?agent=%[1]s&status=finished", in.Agent)
	}
	text, err := json.Marshal(candidate)
	if err != nil {
		return nil, err
	}
	r := &store.Replay{
		ID:        "rp_" + strings.ToLower(rand.Text()),
		Agent:     in.Agent,
		Candidate: text,
		By:        c.By(),
	}
	if err := c.Tenant.CreateReplay(ctx, r, ids); err != nil {
		return nil, err
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return &replayOutput{show(r)}, nil
}

// candidate returns the candidate of a replay. It fails with a [*httpapi.Problem] if the request
// names no candidate, or more than one.
func (s *Service) candidate(
	ctx context.Context,
	t *store.Tenant,
	agent string,
	in *api.StartReplay,
) (*api.ReplayCandidate, error) {
	_, shown, err := s.agents.Load(ctx, t, agent, in.Version)
	if err != nil {
		return nil, err
	}
	if (in.Version == 0) == (in.Module == "") {
		return nil, httpapi.NewProblem(api.CodeInvalid, "want either version or module")
	}
	if in.Module == "" {
		return &api.ReplayCandidate{Version: in.Version}, nil
	}
	module, err := s.o.Modules.Find(ctx, t, in.Module)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(in.Module, "@")
	entry, err := entryOf(shown.Modules, in.Entry, name)
	return &api.ReplayCandidate{
		Module: in.Module, Digest: httpapi.DigestPrefix + module.Digest, Entry: entry}, err
}

// entryOf returns the name of the agent's entry whose module is replaced. If wanted is not empty, entryOf
// returns wanted. Otherwise it returns the first entry that has the module's name or uses the module, or
// else the only entry. It fails with a [*httpapi.Problem] if there is no such entry.
func entryOf(entries []api.Entry, wanted, module string) (string, error) {
	if wanted != "" {
		return wanted, nil // may be an entry of a sub-agent; runs without the entry are skipped
	}
	var names []string
	for _, e := range entries {
		uses, _, _ := strings.Cut(e.Module, "@")
		if e.Name == module || uses == module {
			return e.Name, nil
		}
		names = append(names, e.Name)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", httpapi.NewProblem(api.CodeInvalid, "no entry of the agent is named %.80q; set entry to one of: %s",
		module, cmp.Or(strings.Join(names, ", "), "none"))
}

// selectRuns returns the ids of the runs that a filter selects. If the filter lists ids, these are
// returned in order, each once. Otherwise selectRuns returns the newest finished runs that match, the
// newest first. It reads at most maxScanned runs.
func selectRuns(ctx context.Context, t *store.Tenant, agent string, f *api.ReplayFilter) (ids []string, err error) {
	if len(f.IDs) > 0 {
		for _, id := range f.IDs {
			if !runID.MatchString(id) {
				return nil, httpapi.NewProblem(api.CodeInvalid, "runs.ids has %.80q; want ids of runs", id)
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(f.IDs))), nil
	}
	limit := cmp.Or(int(f.Limit), defaultRuns)
	filter := store.Filter{Agent: agent, Statuses: []journal.Status{journal.StatusFinished}, Page: store.Page{Limit: 500}}
	if !f.Until.IsZero() {
		filter.After = &store.Position{Created: f.Until}
	}
	for scanned := 0; scanned < maxScanned; {
		list, next, err := t.Runs(ctx, &filter)
		if err != nil {
			return nil, err
		}
		for i := range list {
			r := &list[i]
			if !f.Since.IsZero() && r.Created.Before(f.Since) {
				return ids, nil
			}
			if matches(r, f.Version) {
				ids = append(ids, r.ID)
			}
			if len(ids) == limit {
				return ids, nil
			}
		}
		if next == nil {
			return ids, nil
		}
		scanned += len(list)
		filter.After = next
	}
	return ids, nil
}

// matches reports whether a run is of a version of its agent; 0 is any version. Runs within other runs do
// not match.
func matches(r *journal.RunInfo, version int64) bool {
	spec, err := agents.SpecOf(r)
	return r.Parent == "" && err == nil && (version == 0 || spec.Version == version)
}

// body encodes the details of a replayed run.
func body(r *api.ReplayedRun) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the result of a replay: %w", err)
	}
	return b, nil
}
