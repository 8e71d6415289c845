package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Concurrency determines what happens to a run that is requested while another run of its thread is
// unfinished.
type Concurrency string

// Values of Concurrency.
const (
	Reject Concurrency = "reject" // the run does not start; the default
	Queue  Concurrency = "queue"  // the run waits for the earlier ones
	Cancel Concurrency = "cancel" // the run cancels the earlier ones, and starts when they have ended
)

// ConcurrencyOf returns the Concurrency of a thread's runs that do not choose one.
func ConcurrencyOf(h *store.Thread) Concurrency { return cmp.Or(Concurrency(h.Concurrency), Reject) }

// A Turn is the place of a new run in a thread.
type Turn struct {
	Thread string
	// Rewinds makes the run begin with only the first Messages messages of the thread, which must have
	// the version Version. When the run ends, its messages replace the rest of the thread.
	Rewinds  bool
	Messages int
	Version  int64
	// Instructed omits the first message of the input if it is a system message that the thread
	// already has. Clients of model APIs repeat their instructions in each request.
	Instructed  bool
	Concurrency Concurrency // empty selects that of the thread
	fork        bool        // the thread is a fork that was created for the run
}

// maxTurnAttempts limits the attempts to begin a run in a thread that other runs change.
const maxTurnAttempts = 5

// beginTurn starts a run like [Service.Begin] in the thread of client.Turn. The input follows the
// messages of the thread.
func (r *Service) beginTurn(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	in agent.Input,
	client Client,
) (l *ActiveRun, err error) {
	for attempts := 0; attempts < maxTurnAttempts; {
		var continued agent.Input
		if continued, err = r.turnInput(ctx, c, in, client.Turn); err != nil {
			return nil, err
		}
		l, err = r.beginRun(ctx, c, ref, continued, client)
		var busy *journal.ThreadBusyError
		switch {
		case l == nil, err == nil:
			return l, err
		case errors.As(err, &busy):
			l.waitRemoved(ctx)
			if !client.attached() {
				return nil, r.beginLater(ctx, c, ref, in, client, busy)
			}
			if err := r.awaitTurn(ctx, c, client.Turn, busy); err != nil {
				return nil, err
			}
			continue
		case !errors.Is(err, journal.ErrThreadChanged):
			return l, err
		}
		l.waitRemoved(ctx)
		attempts++
	}
	return nil, err
}

// turnInput returns the input of a run that continues a thread: the messages of the thread, and those
// of in.
func (r *Service) turnInput(ctx context.Context, c *httpapi.Caller, in agent.Input, turn *Turn) (agent.Input, error) {
	h, err := c.Thread(ctx, turn.Thread)
	if err != nil {
		return in, err
	}
	n := int(h.Messages)
	if turn.Rewinds {
		if h.Version != turn.Version {
			return in, journal.ErrThreadChanged
		}
		n = min(n, turn.Messages)
	}
	base, err := r.threadMessages(ctx, c.Tenant, h, n)
	if err != nil {
		return in, err
	}
	in.Thread = &journal.ThreadStart{Thread: h.ID, Version: h.Version, Messages: len(base)}
	if turn.Instructed {
		in.Messages = withoutKnown(base, in.Messages)
	}
	in.Messages = append(base[:len(base):len(base)], in.Messages...)
	return in, nil
}

// withoutKnown returns the input. It omits the first message if that is a system message that base
// has, too.
func withoutKnown(base, input []abi.Message) []abi.Message {
	if len(input) == 0 || input[0].Role != abi.RoleSystem {
		return input
	}
	known := func(m abi.Message) bool { return m.Role == abi.RoleSystem && sameContent(m, input[0]) }
	if slices.ContainsFunc(base, known) {
		return input[1:]
	}
	return input
}

// threadMessages returns the first n messages of a thread.
func (r *Service) threadMessages(
	ctx context.Context,
	t *store.Tenant,
	h *store.Thread,
	n int,
) (out []abi.Message, err error) {
	if n == 0 {
		return nil, nil
	}
	err = r.admission.Read(ctx, t.ID(), false, func() error {
		rows, _, err := t.ThreadMessages(ctx, h.ID, &store.MessagePage{Version: h.Version, Limit: n, MaxBytes: 1 << 30})
		if err != nil {
			return err
		}
		out = make([]abi.Message, len(rows))
		for i := range rows {
			if _, err := abijson.Decode(rows[i].Body, &out[i]); err != nil {
				return fmt.Errorf("thread %s: message %d: %w", h.ID, i, err)
			}
		}
		if len(rows) != n {
			return journal.ErrThreadChanged
		}
		return nil
	})
	return out, err
}

// agentOfTurn returns name, or the agent of the thread if name is empty.
func (r *Service) agentOfTurn(ctx context.Context, c *httpapi.Caller, name, thread string) (string, error) {
	if name != "" {
		return name, nil
	}
	h, err := c.Thread(ctx, thread)
	if err == nil && h.Agent == "" {
		err = httpapi.NewProblem(api.CodeInvalid, "agent is missing, and thread %s has none", thread)
	}
	if err != nil {
		return "", err
	}
	return h.Agent, nil
}

// abandon ends a run that no server can resume. Text that modules erased from the run is also erased
// from its thread.
func (r *Service) abandon(ctx context.Context, t *store.Tenant, info *journal.RunInfo, reason string) error {
	var end *journal.ThreadEnd
	if info.Thread != "" {
		stored, err := t.LoadRun(ctx, info.ID)
		if err != nil {
			return err
		}
		if state, _, err := runlog.Restore(stored.Log); err == nil {
			end = agent.ThreadEnd(state, false)
		}
	}
	return t.AbandonRun(ctx, info.ID, reason, end)
}

// RedactorOf returns a redactor for messages of threads. It hides the operator's modules of the runs
// that added the messages, as far as the runs are stored.
func RedactorOf(ctx context.Context, t *store.Tenant, messages []store.ThreadMessage) (*Redactor, error) {
	var pins []journal.Pin
	seen := map[string]bool{}
	for i := range messages {
		id := messages[i].Run
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		info, err := t.Run(ctx, id)
		if errors.Is(err, journal.ErrNoRun) {
			continue
		}
		if err != nil {
			return nil, err
		}
		pins = append(pins, info.Modules...)
	}
	return NewRedactor(pins), nil
}

// Message returns a message of a thread without the operator's data.
func (h *Redactor) Message(body json.RawMessage) (json.RawMessage, error) {
	var m abi.Message
	if _, err := abijson.Decode(body, &m); err != nil {
		return nil, err
	}
	shown := *h.message(&m)
	if entry, ok := strings.CutPrefix(shown.Origin, abi.OriginModule); ok &&
		strings.HasPrefix(entry, agents.OperatorName+".") {
		shown.Origin = abi.OriginModule + agents.OperatorName // its run is no longer stored
	}
	b, err := abijson.Marshal(&shown)
	return h.redactNames(b), err
}

const (
	// awaitInterval is the time between two queries for the run that a request waits for.
	awaitInterval = 500 * time.Millisecond
	// awaitTimeout limits the time for which a request waits for one earlier run of its thread.
	awaitTimeout = 5 * time.Minute
)

// awaitTurn waits until the run that busy names has ended. That run is ahead of the run of an attached
// client in the same thread. If the client or the thread chose [Cancel], awaitTurn first cancels it.
// It returns busy if the choice is [Reject], if the wait takes longer than awaitTimeout, or if the
// server drains. It returns the cause of ctx if the client disconnects.
func (r *Service) awaitTurn(ctx context.Context, c *httpapi.Caller, turn *Turn, busy *journal.ThreadBusyError) error {
	h, err := c.Thread(ctx, turn.Thread)
	if err != nil {
		return err
	}
	choice := cmp.Or(turn.Concurrency, ConcurrencyOf(h))
	if choice == Reject {
		return busy
	}
	if choice == Cancel {
		_, err := r.cancel(ctx, c, &runPath{Run: busy.Run})
		if err != nil && !errors.Is(err, journal.ErrFinished) && !errors.Is(err, journal.ErrNoRun) {
			return err
		}
	}
	var ended <-chan struct{} // nil if another server executes the run
	if l := r.Active.Get(c.Tenant.ID(), busy.Run); l != nil {
		ended = l.ended
	}
	timeout := time.NewTimer(awaitTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(awaitInterval)
	defer ticker.Stop()
	for {
		info, err := c.Tenant.Run(ctx, busy.Run)
		if errors.Is(err, journal.ErrNoRun) || err == nil && info.Status == journal.StatusFinished {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ended:
			ended = nil
		case <-ticker.C:
		case <-timeout.C:
			return busy
		case <-r.options.Draining:
			return busy
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
