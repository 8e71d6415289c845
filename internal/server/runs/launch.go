package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// launch starts a run with messages, or resumes one. key is the request's Idempotency-Key. If an
// earlier request with the key already did so, launch does nothing: l is nil, and known describes
// that request.
func (r *Service) launch(
	ctx context.Context,
	c *httpapi.Caller,
	in *api.StartRun,
	messages []abi.Message,
	key Key,
) (l *ActiveRun, known *Earlier, err error) {
	if in.Run != "" {
		return r.ResumeOnce(ctx, c, in.Run, in.Answers, Client{}, key)
	}
	name, client := in.Agent, Client{}
	if in.Thread != "" {
		if name, err = r.agentOfTurn(ctx, c, in.Agent, in.Thread); err != nil {
			return nil, nil, err
		}
		client.Turn = &Turn{Thread: in.Thread, Concurrency: Concurrency(in.Concurrency)}
	}
	ref, err := agents.ParseRef(name, in.Version)
	if err != nil {
		return nil, nil, err
	}
	ref.Thread = cmp.Or(ref.Thread, in.Thread)
	input := agent.Input{RunID: journal.NewRunID(), Messages: messages, Metadata: in.Metadata}
	if key.given() {
		key.digest = requestDigest(key.key, in.Agent+in.Thread, messages)
	}
	return r.BeginOnce(ctx, c, ref, input, client, key)
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

// sameContent reports whether two messages are equal apart from their ids, origins and labels.
func sameContent(a, b abi.Message) bool {
	a, b = message.Unlabelled(a), message.Unlabelled(b)
	a.ID, a.Origin, b.ID, b.Origin = "", "", "", ""
	first, err := abijson.Marshal(a)
	second, wrong := abijson.Marshal(b)
	return err == nil && wrong == nil && bytes.Equal(first, second)
}

// MaxMetadata limits a run's metadata, in bytes. Each hook receives the metadata, and the run
// stores it.
const MaxMetadata = 64 << 10

// Begin starts a run of the version of an agent that ref names, and returns when the run has begun.
// If client has a Turn, the run continues a thread, and in has the messages after those of the thread.
// If the run is added to the queue of a busy thread instead, the error is a [*queuedError].
func (r *Service) Begin(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
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
	if err := r.allow(ctx, c, &ref, &in, &client); err != nil {
		return nil, err
	}
	if err := c.Tenant.CheckRunQuotas(ctx); err != nil { // before waiting for the agent
		return nil, err
	}
	if client.Turn != nil {
		return r.beginTurn(ctx, c, ref, in, client)
	}
	return r.beginRun(ctx, c, ref, in, client)
}

// beginRun starts a run of an agent with all its messages.
func (r *Service) beginRun(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	in agent.Input,
	client Client,
) (*ActiveRun, error) {
	t := c.Tenant
	o, err := r.Agents.Open(ctx, t, agents.Spec{
		Agent: ref.Name, Version: ref.Version, Alias: ref.Alias, Run: in.RunID, Thread: ref.Thread})
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
	if in.Thread != nil {
		r.options.Go(func() { <-l.ended; r.wakeQueues() })
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
