package runs

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// launch starts a run with messages, or resumes one. key is the request's Idempotency-Key, or
// empty. If an earlier request with the key started a run, launch starts none, and returns that run
// as known instead of l.
func (r *Service) launch(
	ctx context.Context,
	c *httpapi.Caller,
	in *api.StartRun,
	messages []abi.Message,
	key string,
) (l *ActiveRun, known *journal.RunInfo, err error) {
	if in.Run != "" {
		l, err = r.Resume(ctx, c, in.Run, in.Answers, Client{})
		return l, nil, err
	}
	input := agent.Input{RunID: journal.NewRunID(), Messages: messages, Metadata: in.Metadata}
	same := func() error { return r.checkSameRequest(ctx, c.Key.Tenant, known, in.Agent, &input) }
	if key != "" {
		input.RunID, input.RequestDigest = keyedRunID(c.Tenant.ID(), key), requestDigest(key, in.Agent, messages)
		if known, err = r.Find(ctx, c.Tenant, input.RunID); err == nil {
			return nil, known, same()
		} else if !errors.Is(err, journal.ErrNoRun) {
			return nil, nil, err
		}
	}
	l, err = r.Begin(ctx, c, in.Agent, in.Version, input, Client{})
	var running *alreadyRunningError
	if key != "" && (errors.As(err, &running) || errors.Is(err, journal.ErrExists)) {
		// A concurrent identical request came first, here or on another server.
		if known, err = r.Find(ctx, c.Tenant, input.RunID); err == nil {
			err = same()
		}
		return nil, known, err
	}
	return l, nil, err
}

// checkSameRequest rejects a request that reuses the Idempotency-Key of a different request.
// Otherwise the client would receive the response to the earlier request. It compares the agents
// and the messages. If the run has not begun yet, it waits until it has.
func (r *Service) checkSameRequest(
	ctx context.Context,
	tenant string,
	known *journal.RunInfo,
	name string,
	in *agent.Input,
) error {
	if l := r.Active.Get(tenant, known.ID); l != nil {
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
	// A journal may have many megabytes, so this is a read like that of a history.
	return r.admission.Read(ctx, tenant, false, func() error {
		stored, err := r.store.Load(ctx, known.ID)
		if err != nil {
			return err
		}
		h, err := runlog.ReadHistory(stored)
		if err != nil {
			return err
		}
		if stored.Agent != name || !sameInput(h, in) {
			return httpapi.NewProblem(api.CodeInvalid,
				"the Idempotency-Key belongs to another request, which started %s; use a different key", known.ID)
		}
		return nil
	})
}

// sameInput reports whether a run was started with an input. The stored messages can be different,
// because modules may have changed them. They are compared only for runs of older versions, which
// have no digest.
func sameInput(h *runlog.History, in *agent.Input) bool {
	if h.State.Request != "" {
		return h.State.Request == in.RequestDigest
	}
	return slices.EqualFunc(h.Input, in.Messages, sameContent)
}

// requestDigest returns the digest of a request to start a run. It is an HMAC whose secret is the
// client's Idempotency-Key, so that it does not reveal short messages.
func requestDigest(key, name string, messages []abi.Message) string {
	h := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(h, "%q", name)
	for _, m := range messages {
		m.ID, m.Origin = "", ""
		b, err := abijson.Marshal(m)
		fmt.Fprintf(h, "%d %v %s", len(b), err, b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sameContent reports whether two messages are equal apart from their ids and origins.
func sameContent(a, b abi.Message) bool {
	a.ID, a.Origin, b.ID, b.Origin = "", "", "", ""
	first, err := abijson.Marshal(a)
	second, wrong := abijson.Marshal(b)
	return err == nil && wrong == nil && bytes.Equal(first, second)
}

func keyedRunID(tenant, key string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + key))
	return "run_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// MaxMetadata limits a run's metadata, in bytes. Each hook receives the metadata, and the run
// stores it.
const MaxMetadata = 64 << 10

// Begin starts a run of an agent, and returns when the run has begun. version 0 is the newest
// version of the agent.
func (r *Service) Begin(
	ctx context.Context,
	c *httpapi.Caller,
	name string,
	version int64,
	in agent.Input,
	client Client,
) (*ActiveRun, error) {
	size := 0
	for key, value := range in.Metadata {
		size += len(key) + len(value)
	}
	if size > MaxMetadata {
		return nil, httpapi.NewProblem(api.CodeInvalid, "metadata has %d bytes; at most %d are allowed", size, MaxMetadata)
	}
	t := c.Tenant
	if err := t.CheckRunQuotas(ctx); err != nil { // before waiting for the agent
		return nil, err
	}
	o, err := r.Agents.Open(ctx, t, agents.Spec{Agent: name, Version: version})
	if err != nil {
		return nil, err
	}
	a, err := client.agent(o)
	if err == nil {
		err = r.checkBlocked(agent.Pins(o.Agent))
	}
	if err != nil {
		o.Release()
		return nil, err
	}
	done, err := r.admission.Write(ctx, c.Key.Tenant, c.BodyBytes)
	if err != nil {
		o.Release()
		return nil, err
	}
	defer done()
	l, err := r.run(t, in.RunID, o, nil, func(ctx context.Context) (iter.Seq2[delivery.Event, error], error) {
		return a.RunFor(ctx, in, NewRedactor(agent.Pins(o.Agent)).encoder(client.Encoder)), nil
	})
	if err != nil {
		return nil, err
	}
	return l, l.wait(ctx)
}

// agentOf returns the agent of an existing run, which the caller must release.
func (r *Service) agentOf(ctx context.Context, t *store.Tenant, info *journal.RunInfo) (*agents.Handle, error) {
	spec, err := agents.SpecOf(info)
	if err != nil || spec.Agent == "" {
		return nil, httpapi.NewProblem(api.CodeConflict, "run %s was not started by a server", info.ID)
	}
	return r.Agents.Open(ctx, t, spec)
}
