package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A StartRun begins a run, or goes on with one that waits.
type StartRun struct {
	Agent    string                     `json:"agent,omitempty" doc:"The agent to run."`
	Version  int64                      `json:"version,omitempty" doc:"The agent's version. Default: the newest."`
	Input    string                     `json:"input,omitempty" doc:"The user's message."`
	Messages []json.RawMessage          `json:"messages,omitempty" doc:"A conversation in OpenAI's format, instead of input."`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" doc:"Metadata of the caller, at most 64 KiB. Modules can read it."`
	Run      string                     `json:"run,omitempty" doc:"The run to resume."`
	Answers  map[string]json.RawMessage `json:"answers,omitempty" doc:"Answers to interrupts, by their ids."`
	// Disconnect says what becomes of the run when nobody follows it any more.
	Disconnect string `json:"disconnect,omitempty" enum:"continue,cancel" doc:"Whether the run continues or is canceled when its last follower disconnects. Default: continue."`
}

func describeStart(op *huma.Operation, registry huma.Registry) {
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Schema: registry.Schema(reflect.TypeFor[StartRun](), true, "StartRun")}}}
	op.Parameters = append(op.Parameters, &huma.Param{Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: "string", Pattern: idempotency.String()},
		Description: "Identifies the request. Repeating the same request returns the existing run; a different request with the same key is rejected."})
	run := registry.Schema(reflect.TypeFor[Run](), true, "Run")
	op.Responses["202"] = &huma.Response{Description: "The run", Content: map[string]*huma.MediaType{"application/json": {Schema: run}}}
	op.Responses["200"] = &huma.Response{Description: "The events of the run, or the existing run", Content: map[string]*huma.MediaType{
		"application/json": {Schema: run}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
}

var idempotency = regexp.MustCompile(`^[\x21-\x7e]{1,200}$`)

// readJSONBody reads a body that says that it is JSON.
func readJSONBody(req *http.Request) ([]byte, error) {
	if kind, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";"); kind != "" && !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, problem(codeMediaType, "the body is %.80q; want application/json", kind)
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, readError(err)
	}
	return b, nil
}

// read reads a body that is valid in every respect.
func (in *StartRun) read(b []byte) error {
	unknown, err := abi.Decode(b, in)
	if err != nil {
		return problem(codeInvalid, "the body is not valid: %v", err)
	}
	if len(unknown) > 0 {
		return problem(codeInvalid, "the body has the unknown field %.80q; want agent with input or messages, and version, metadata and disconnect if need be; or run with answers", unknown[0])
	}
	return in.check()
}

// readError is why a body could not be read.
func readError(err error) error {
	var size *http.MaxBytesError
	if errors.As(err, &size) {
		return err
	}
	return problem(codeInvalid, "read the body: %v", err)
}

// start begins a run or goes on with one, and answers with it, or with its events.
func (r *runs) start(w http.ResponseWriter, req *http.Request, c *Caller) error {
	b, err := readJSONBody(req)
	if err != nil {
		return err
	}
	var in StartRun
	var messages []abi.Message
	if err := r.server.parse(req.Context(), c, len(b), func() error {
		if err := in.read(b); err != nil {
			return err
		}
		messages, err = in.conversation()
		return err
	}); err != nil {
		return err
	}
	key := req.Header.Get("Idempotency-Key")
	if key != "" && !idempotency.MatchString(key) {
		return problem(codeInvalid, "Idempotency-Key has invalid characters, or more than 200 characters")
	}
	streams := strings.Contains(req.Header.Get("Accept"), "text/event-stream")
	l, known, err := r.launch(req.Context(), c, &in, messages, key)
	if err != nil {
		return err
	}
	c.bodyRead()
	id := in.Run
	if l != nil {
		id = l.id
		l.attached.Store(in.Disconnect == "cancel" && streams)
	} else if known != nil {
		id = known.ID
	}
	w.Header().Set("Location", "/v1/runs/"+id)
	if streams {
		return r.follow(w, req, c, id, in.Run != "", l)
	}
	return r.answer(w, req, c, id, l)
}

// check refuses what makes no sense.
func (in *StartRun) check() error {
	switch {
	case in.Run != "" && (in.Agent != "" || in.Input != "" || in.Messages != nil || in.Metadata != nil):
		return problem(codeInvalid, "run resumes an existing run: remove agent, input, messages and metadata")
	case in.Run != "" && len(in.Answers) == 0:
		return problem(codeInvalid, "the run waits for answers: set answers, by the ids of its interrupts")
	case in.Run != "":
		return nil
	case in.Agent == "":
		return problem(codeInvalid, "agent is missing; GET /v1/agents lists them")
	case len(in.Answers) > 0:
		return problem(codeInvalid, "answers needs run")
	case (in.Input == "") == (len(in.Messages) == 0):
		return problem(codeInvalid, "want either input or messages")
	case in.Disconnect != "" && in.Disconnect != "cancel" && in.Disconnect != "continue":
		return problem(codeInvalid, "disconnect is %.40q; want continue or cancel", in.Disconnect)
	}
	return nil
}

// conversation is what the run begins with.
func (in *StartRun) conversation() ([]abi.Message, error) {
	if in.Input != "" {
		return []abi.Message{abi.User(in.Input)}, nil
	}
	out := make([]abi.Message, len(in.Messages))
	for i, raw := range in.Messages {
		m := &out[i]
		_, err := abi.Decode(raw, m)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			return nil, problem(codeInvalid, "messages[%d]: %v", i, err)
		}
		m.ID, m.Origin, m.Extra = "", "", nil // are the host's to give
	}
	return out, nil
}

// launch lets a run begin with messages, or go on. known is the run that the same
// request began before.
func (r *runs) launch(ctx context.Context, c *Caller, in *StartRun, messages []abi.Message, key string) (l *live, known *journal.RunInfo, err error) {
	if in.Run != "" {
		l, err = r.resume(ctx, c.Tenant, in.Run, in.Answers, nil, nil)
		return l, nil, err
	}
	id := agent.NewRunID()
	if key != "" {
		id = keyedRunID(c.Tenant.ID(), key)
		if known, err = r.find(ctx, c.Tenant, id); err == nil {
			return nil, known, r.sameRequest(ctx, known, in, messages)
		} else if !errors.Is(err, journal.ErrNoRun) {
			return nil, nil, err
		}
	}
	l, err = r.begin(ctx, c, in.Agent, in.Version, agent.Input{RunID: id, Messages: messages, Metadata: in.Metadata}, nil, nil)
	if key != "" && (errors.Is(err, errGoesOn) || errors.Is(err, journal.ErrExists)) {
		// The same request was quicker, here or on another server.
		if known, err = r.find(ctx, c.Tenant, id); err == nil {
			err = r.sameRequest(ctx, known, in, messages)
		}
		return nil, known, err
	}
	return l, nil, err
}

// sameRequest refuses a request that has the Idempotency-Key of another one: who sends it
// would take that one's answer for its own. Of a run that is not in the store yet, only
// the agent is known.
func (r *runs) sameRequest(ctx context.Context, known *journal.RunInfo, in *StartRun, messages []abi.Message) error {
	another := problem(codeInvalid, "the Idempotency-Key belongs to another request, which started %s; use a different key", known.ID)
	if known.Agent != "" && known.Agent != in.Agent {
		return another
	}
	kept, err := r.store.Load(ctx, known.ID)
	if errors.Is(err, journal.ErrNoRun) {
		return nil
	}
	if err != nil {
		return err
	}
	h, err := agent.ReadHistory(kept)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(h.Input, messages, func(a, b abi.Message) bool {
		a.ID, a.Origin, b.ID, b.Origin = "", "", "", ""
		first, err := abi.Marshal(a)
		second, wrong := abi.Marshal(b)
		return err == nil && wrong == nil && bytes.Equal(first, second)
	}) {
		return another
	}
	return nil
}

func keyedRunID(tenant, key string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + key))
	return "run_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// maxMetadata is how many bytes of metadata a run has at most. Modules are shown it in
// each hook, and it is kept with the run.
const maxMetadata = 64 << 10

// begin begins a run of an agent, with tools that the client runs beside its own.
func (r *runs) begin(ctx context.Context, c *Caller, name string, version int64, in agent.Input, tools []abi.Tool, enc chain.Encoder) (*live, error) {
	size := 0
	for key, value := range in.Metadata {
		size += len(key) + len(value)
	}
	if size > maxMetadata {
		return nil, problem(codeInvalid, "metadata has %d bytes; at most %d are allowed", size, maxMetadata)
	}
	t := c.Tenant
	if err := t.CheckRunQuotas(ctx); err != nil { // or what it needs would be waited for
		return nil, err
	}
	o, err := r.fleet.open(ctx, t, runSpec{Agent: name, Version: version})
	if err != nil {
		return nil, err
	}
	a, err := withClientTools(o.Agent, tools)
	if err == nil {
		err = r.allowed(o.Pins())
	}
	if err != nil {
		o.release()
		return nil, err
	}
	done, err := r.server.admission.Write(ctx, c.Key.Tenant, c.body)
	if err != nil {
		o.release()
		return nil, err
	}
	defer done()
	l, err := r.run(t, in.RunID, o, nil, func(ctx context.Context) (iter.Seq2[agent.ClientEvent, error], error) {
		return a.RunFor(ctx, in, hiddenIn(o.Pins()).encoder(enc)), nil
	})
	if err != nil {
		return nil, err
	}
	return l, l.wait(ctx)
}

// resume goes on with a run that waits for answers.
func (r *runs) resume(ctx context.Context, t *store.Tenant, id string, answers map[string]json.RawMessage, tools []abi.Tool, enc chain.Encoder) (*live, error) {
	info, err := t.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusQuarantined {
		return nil, problem(codeConflict, "run %s is quarantined; cancel it, or ask the operator to release it", id)
	}
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		return nil, err
	}
	a, err := withClientTools(o.Agent, tools)
	if err == nil {
		err = r.allowed(o.Pins())
	}
	if err != nil {
		o.release()
		return nil, err
	}
	if old := r.lives.get(t.ID(), id); old != nil && info.Status == journal.StatusPaused {
		old.leave(ctx)
	}
	failed := make(chan error, 1)
	admit := func() error { return t.AdmitRun(ctx, id, info.Agent, false) }
	l, err := r.run(t, id, o, admit, func(ctx context.Context) (iter.Seq2[agent.ClientEvent, error], error) {
		events, err := a.ContinueFor(ctx, id, answers, hiddenIn(o.Pins()).encoder(enc))
		failed <- err
		return events, err
	})
	if err != nil {
		return nil, err
	}
	if err := <-failed; err != nil {
		return nil, resumeProblem(err)
	}
	l.from = info.LastSeq
	return l, nil
}

// resumeProblem is why a run cannot go on.
func resumeProblem(err error) error {
	var pins *journal.PinError
	var waits *journal.WaitingError
	switch {
	case errors.Is(err, journal.ErrNoRun), errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrFinished):
		return err
	case errors.As(err, &pins):
		return problem(codeConflict, "%v", pins)
	case errors.As(err, &waits):
		return problem(codeConflict, "%v", waits)
	}
	var db *database.Error
	if errors.As(err, &db) {
		return err
	}
	return problem(codeInvalid, "%v", err)
}

func withClientTools(a *agent.Agent, tools []abi.Tool) (*agent.Agent, error) {
	if len(tools) == 0 {
		return a, nil
	}
	var list []tool.Tool
	for _, d := range tools {
		list = append(list, tool.ByClient(d))
	}
	b, err := a.WithTools(list...)
	if err != nil {
		return nil, problem(codeInvalid, "%v", err)
	}
	return b, nil
}

// agentOf opens the agent of a run that was begun before.
func (r *runs) agentOf(ctx context.Context, t *store.Tenant, info *journal.RunInfo) (*opened, error) {
	spec, err := specOf(info)
	if err != nil || spec.Agent == "" {
		return nil, problem(codeConflict, "run %s was not started by a server", info.ID)
	}
	return r.fleet.open(ctx, t, spec)
}

// errGoesOn is why a run does not begin, or go on, that does so already.
var errGoesOn = errors.New("run is already in progress")

// run runs a run beside the requests, to its end here, if it is admitted: nil admits
// it. Of several that have its id at once, one gets as far as that. The agent is
// released by it.
func (r *runs) run(t *store.Tenant, id string, o *opened, admit func() error, events func(context.Context) (iter.Seq2[agent.ClientEvent, error], error)) (*live, error) {
	ctx, cancel := context.WithCancelCause(sandbox.Sharing(context.Background(), r.server.admission.Sharer(t.ID())))
	pins := o.Pins()
	hide := hiddenIn(pins)
	l := r.lives.add(id, t.ID(), pins, cancel)
	if l == nil {
		cancel(nil)
		o.release()
		return nil, fmt.Errorf("run %s: %w", id, errGoesOn)
	}
	if admit != nil {
		if err := admit(); err != nil {
			cancel(nil)
			r.lives.remove(l)
			o.release()
			return nil, err
		}
	}
	memory, closeMemory := r.server.memory.open(t.ID(), o.memory)
	ctx = account.WithContext(ctx, memory)
	l.count(memory)
	reasons, _ := r.server.blocks.current()
	r.stopBlocked(l, reasons) // one that was blocked while it was opened
	r.server.Go(func() {
		defer closeMemory()
		defer o.release()
		defer cancel(nil)
		defer r.lives.remove(l)
		defer func() {
			if admit != nil && !l.hasBegun() {
				r.released(t, id)
			}
		}()
		stream, err := events(ctx)
		if err != nil {
			l.fail(err)
			return
		}
		for e, err := range stream {
			if e.Event.Type != "" {
				line := hide.line(&e.Event)
				if line.data != nil {
					line.encoded = e.Encoded
				}
				l.put(line)
			} else if err != nil {
				l.fail(err)
				r.goneOn(t, id, err)
			}
		}
	})
	return l, nil
}

// plain are events without a client's protocol.
func plain(events iter.Seq2[abi.Event, error]) iter.Seq2[agent.ClientEvent, error] {
	return func(yield func(agent.ClientEvent, error) bool) {
		for e, err := range events {
			if !yield(agent.ClientEvent{Event: e}, err) {
				return
			}
		}
	}
}

// released gives the place of a run back that never came to the store.
func (r *runs) released(t *store.Tenant, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := t.ReleaseRun(ctx, id); err != nil {
		r.server.log.Warn("a run's place is not given back before its time", "run", id, "error", err)
	}
}

// goneOn logs that a run goes no further here.
func (r *runs) goneOn(t *store.Tenant, id string, err error) {
	var full *store.QuotaError
	if errors.As(err, &full) {
		return // it did not begin, and who wanted it is told
	}
	if errors.Is(err, journal.ErrReleased) {
		r.handed.Add(1)
		r.server.log.Info("a run is handed back", "tenant", t.ID(), "run", id)
		return
	}
	r.server.log.Error("a run goes no further here", "tenant", t.ID(), "run", id, "error", err)
}

// end ends a run that nobody runs: its modules learn of it, if its agent is there.
func (r *runs) end(ctx context.Context, t *store.Tenant, info *journal.RunInfo) error {
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		return t.AbandonRun(ctx, info.ID, "canceled; its agent is not to be had any more")
	}
	failed := make(chan error, 1)
	l, err := r.run(t, info.ID, o, nil, func(ctx context.Context) (iter.Seq2[agent.ClientEvent, error], error) {
		events, err := o.Cancel(ctx, info.ID)
		failed <- err
		return plain(events), err
	})
	if err != nil {
		return nil // it goes on, and hears of it from who runs it
	}
	if err := <-failed; err != nil {
		return t.AbandonRun(ctx, info.ID, "canceled")
	}
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	return nil
}

// follow answers with the events of a run that was begun or goes on.
func (r *runs) follow(w http.ResponseWriter, req *http.Request, c *Caller, id string, resumed bool, l *live) error {
	info, err := r.find(req.Context(), c.Tenant, id)
	if err != nil {
		return err
	}
	f := &follower{runs: r, tenant: c.Tenant, run: id, hide: hiddenIn(info.Modules)}
	if resumed && l != nil {
		f.after = l.from
	}
	r.stream(w, req, f)
	return nil
}

// answer answers with the run.
func (r *runs) answer(w http.ResponseWriter, req *http.Request, c *Caller, id string, l *live) error {
	info, err := r.find(req.Context(), c.Tenant, id)
	if errors.Is(err, journal.ErrNoRun) && l != nil && l.failure() != nil {
		return fmt.Errorf("run %s did not begin: %w", id, l.failure())
	}
	if err != nil {
		return err
	}
	shown, err := r.whole(req.Context(), c.Tenant, info)
	if err != nil {
		return err
	}
	b, err := abi.Marshal(shown)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, err = w.Write(append(b, '\n'))
	return err
}
