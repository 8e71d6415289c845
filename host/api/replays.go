package api

import "time"

// A StartReplay is a request to replay stored runs of an agent with a candidate, which is either a version
// of the agent or a module.
type StartReplay struct {
	Version int64        `json:"version,omitempty" minimum:"0" doc:"The candidate version of the agent."`
	Module  string       `json:"module,omitempty" maxLength:"200" doc:"The candidate module, instead of a version: a digest, a name or name@version."`
	Entry   string       `json:"entry,omitempty" maxLength:"200" doc:"The entry whose module is replaced. Default: the entry with the module's name, or the only one."`
	Runs    ReplayFilter `json:"runs,omitzero" doc:"The runs to replay: the newest finished ones that match."`
}

// A ReplayFilter selects runs to replay.
type ReplayFilter struct {
	Limit   int64     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"Maximum number of runs. Default: 100."`
	Version int64     `json:"version,omitempty" minimum:"0" doc:"Only runs of this version of the agent."`
	Since   time.Time `json:"since,omitzero" doc:"Only runs that were created at this time or later."`
	Until   time.Time `json:"until,omitzero" doc:"Only runs that were created before this time."`
	IDs     []string  `json:"ids,omitempty" maxItems:"1000" doc:"These runs, instead of the newest ones. Other fields are ignored."`
}

// A Replay is a job that replays stored runs of an agent with a candidate.
type Replay struct {
	ID        string          `json:"id"`
	Agent     string          `json:"agent"`
	Status    string          `json:"status" enum:"queued,running,finished,canceled"`
	Candidate ReplayCandidate `json:"candidate"`
	Total     int64           `json:"total" doc:"The number of runs to replay."`
	Done      int64           `json:"done" doc:"The number of runs that have an outcome. It is the sum of the following fields."`
	Same      int64           `json:"same" doc:"Runs that the candidate would not change."`
	Different int64           `json:"different" doc:"Runs that the candidate would change, although it asks the model the same."`
	Diverged  int64           `json:"diverged" doc:"Runs in which the candidate asks the model something else, so that the rest of the run is unknown."`
	Failed    int64           `json:"failed" doc:"Runs in which the candidate fails or has more faults."`
	Skipped   int64           `json:"skipped" doc:"Runs that cannot be replayed; each says why."`
	By        string          `json:"by" doc:"Who started the replay."`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Ended     time.Time       `json:"ended,omitzero"`
}

// A ReplayCandidate is the version of the agent or the module that a replay runs instead of the
// original.
type ReplayCandidate struct {
	Version int64  `json:"version,omitempty"`
	Module  string `json:"module,omitempty" doc:"The module as the request named it."`
	Digest  string `json:"digest,omitempty"`
	Entry   string `json:"entry,omitempty"`
}

// A ReplayedRun is the result of replaying one run.
type ReplayedRun struct {
	Number  int64          `json:"number" doc:"The run's number in the replay, starting at 1."`
	Run     string         `json:"run"`
	Outcome string         `json:"outcome" enum:"same,different,diverged,failed,skipped"`
	Reason  string         `json:"reason,omitempty" doc:"Why the run failed, was skipped, or ended early."`
	Version int64          `json:"version,omitempty" doc:"The version of the agent that the run had."`
	Changes []ReplayChange `json:"changes,omitempty" doc:"What differs, in the order of the run; at most 50."`
	Omitted int64          `json:"omitted,omitempty" doc:"The number of further changes."`
	Hooks   []ReplayHook   `json:"hooks,omitempty" doc:"The hooks that differ in their answers, calls, faults or fuel; at most 50."`
	Before  ReplayFigures  `json:"before" doc:"The run with its own modules."`
	After   ReplayFigures  `json:"after" doc:"The run with the candidate."`
}

// ReplayFigures holds counters of one replay of a run.
type ReplayFigures struct {
	Steps   int64 `json:"steps"`
	Faults  int64 `json:"faults"`
	Denials int64 `json:"denials" doc:"Tool calls that gates denied."`
	Fuel    int64 `json:"fuel"`
}

// A ReplayChange is a difference between a run and its replay with the candidate. Before is empty for
// an addition, and After for a removal. Both are excerpts of at most about 400 bytes.
type ReplayChange struct {
	Kind   string `json:"kind" enum:"request,message,call,tool_sent,result,decision,fault,event,end"`
	Step   int64  `json:"step"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// A ReplayHook compares the calls of a hook in one step of the run with its calls in the same step of
// the replay with the candidate.
type ReplayHook struct {
	Step           int64       `json:"step"`
	Entry          string      `json:"entry"`
	Hook           string      `json:"hook"`
	Before         HookFigures `json:"before"`
	After          HookFigures `json:"after"`
	ChangedAnswers int64       `json:"changed_answers" doc:"The number of answers of the hook that differ."`
	ChangedTexts   int64       `json:"changed_texts" doc:"The number of texts in answers that differ: messages, results, arguments, streamed text, instructions and reasons of gates."`
}

// HookFigures holds counters of the calls of a hook.
type HookFigures struct {
	Calls     int64            `json:"calls"`
	Failed    int64            `json:"failed,omitempty" doc:"Calls that answered with an error."`
	Faults    int64            `json:"faults,omitempty"`
	Fuel      int64            `json:"fuel"`
	Decisions map[string]int64 `json:"decisions,omitempty" doc:"The number of answers by decision: allow, ask, deny and stop of gates; stop, interrupt, respond (instead of the model or the tool) and repeat (the call of the model or the tool) of other hooks."`
	Texts     int64            `json:"texts,omitempty" doc:"The number of texts in its answers."`
}
