package runs

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// A Key is the Idempotency-Key of a request that starts or resumes a run. It is zero if the request
// has no such header. The run records the key, so that all servers can find it as long as the run is
// stored.
type Key struct {
	key    string
	digest string // of the request; keyed with the key, so that it does not reveal short messages
}

const keyHeader = "Idempotency-Key"

var idempotencyKey = regexp.MustCompile(`^[\x21-\x7e]{1,200}$`)

// DescribeKey adds the header Idempotency-Key to an operation of the OpenAPI document.
func DescribeKey(op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name:   keyHeader,
		In:     "header",
		Schema: &huma.Schema{Type: "string", Pattern: idempotencyKey.String()},
		Description: "Identifies the request. Repeating the same request returns the existing run, or its answer; a different " +
			"request with the same key is rejected.",
	})
}

// KeyOf returns the Idempotency-Key of a request with the given body. It returns the zero Key if
// the request has none, and fails with a [*httpapi.Problem] if the key is invalid.
func KeyOf(req *http.Request, body []byte) (Key, error) {
	key := req.Header.Get(keyHeader)
	if key == "" {
		return Key{}, nil
	}
	if !idempotencyKey.MatchString(key) {
		return Key{}, httpapi.NewProblem(api.CodeInvalid,
			"Idempotency-Key has invalid characters, or more than 200 characters")
	}
	h := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(h, "%q", req.URL.Path)
	h.Write(body)
	return Key{key: key, digest: hex.EncodeToString(h.Sum(nil))}, nil
}

func (k *Key) given() bool { return k.key != "" }

// sum returns a hash of the key that is unique to the tenant and, for tokens, to the end user.
func (k *Key) sum(c *httpapi.Caller) [sha256.Size]byte {
	text := c.Tenant.ID() + "\x00" + k.key
	if c.Token != nil {
		text = c.Tenant.ID() + "\x00" + c.Token.Subject + "\x00" + k.key
	}
	return sha256.Sum256([]byte(text))
}

// hash returns the key in the form that a run records.
func (k *Key) hash(c *httpapi.Caller) string {
	sum := k.sum(c)
	return hex.EncodeToString(sum[:])
}

// runID returns the ID of the run that a request with the key starts.
func (k *Key) runID(c *httpapi.Caller) string {
	sum := k.sum(c)
	return "run_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// An Earlier describes the run that an earlier request with the same key started or resumed.
type Earlier struct {
	Run *journal.RunInfo
	// After is the number of the run's last event before that request, and Before is the run's
	// usage until then. Both are zero if the request started the run.
	After  int64
	Before abi.Usage
}

// BeginOnce starts a run like [Service.Begin]. If an earlier request with the key has started a
// run, it starts none: l is nil, and known has that run. If the run is added to the queue of its
// thread, l is nil, too, and known has the queued run. BeginOnce fails with a [*httpapi.Problem] if
// the earlier request was different.
func (r *Service) BeginOnce(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	in agent.Input,
	client Client,
	key Key,
) (l *ActiveRun, known *Earlier, err error) {
	if err := r.allow(ctx, c, &ref, &in, &client); err != nil {
		return nil, nil, err
	}
	if !key.given() {
		l, err = r.Begin(ctx, c, ref, in, client)
		if later, ok := errors.AsType[*queuedError](err); ok {
			return nil, &Earlier{Run: later.run}, nil
		}
		return l, nil, err
	}
	in.RunID, in.RequestDigest = key.runID(c), key.digest
	info, err := r.Find(ctx, c, in.RunID)
	if errors.Is(err, journal.ErrNoRun) {
		l, err = r.Begin(ctx, c, ref, in, client)
		if later, ok := errors.AsType[*queuedError](err); ok {
			return nil, &Earlier{Run: later.run}, nil
		}
		var running *alreadyRunningError
		if !errors.As(err, &running) && !errors.Is(err, journal.ErrExists) {
			return l, nil, err
		}
		info, err = r.Find(ctx, c, in.RunID) // a concurrent identical request came first, here or on another server
	}
	if err == nil {
		err = r.checkSameRequest(ctx, c.Tenant.ID(), info, ref.Name, &in)
	}
	if err != nil {
		return nil, nil, err
	}
	return nil, &Earlier{Run: info}, nil
}

// checkSameRequest rejects a request that reuses the Idempotency-Key of a different request.
// Otherwise the client would receive the response to the earlier request. It compares the agents
// and the requests. If the run has not begun yet, it waits until it has.
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
	if known.Status == journal.StatusQueued {
		return r.checkSameQueued(ctx, tenant, known, in)
	}
	h, agentName, err := r.historyOf(ctx, tenant, known.ID)
	if err != nil {
		return err
	}
	if agentName != name || !sameInput(h, in) {
		return reusedKey("started", known.ID)
	}
	return nil
}

// historyOf reads the history of a run and the name of its agent. It first waits for a slot,
// because a journal may have many megabytes.
func (r *Service) historyOf(ctx context.Context, tenant, id string) (h *runlog.History, name string, err error) {
	err = r.admission.Read(ctx, tenant, false, func() error {
		stored, err := r.store.Load(ctx, id)
		if err != nil {
			return err
		}
		name = stored.Agent
		h, err = runlog.ReadHistory(stored)
		return err
	})
	return h, name, err
}

// Digest returns the digest of the request, or "" if the request has no key.
func (k *Key) Digest() string { return k.digest }

func reusedKey(did, run string) error {
	return httpapi.NewProblem(api.CodeInvalid,
		"the Idempotency-Key belongs to another request, which %s %s; use a different key", did, run)
}

// ResumeOnce resumes a run like [Service.Resume]. If an earlier request with the key has resumed
// the run, it does nothing: l is nil, and known describes that request. It fails with a
// [*httpapi.Problem] if the earlier request was different.
func (r *Service) ResumeOnce(
	ctx context.Context,
	c *httpapi.Caller,
	id string,
	answers map[string]json.RawMessage,
	client Client,
	key Key,
) (l *ActiveRun, known *Earlier, err error) {
	if !key.given() {
		l, err = r.Resume(ctx, c, id, answers, client)
		return l, nil, err
	}
	if known, err = r.resumedBy(ctx, c, id, key); known != nil || err != nil {
		return nil, known, err
	}
	l, err = r.resume(ctx, c, id, answers, client, key)
	if err == nil {
		return l, nil, nil
	}
	if known, lost := r.resumedBy(ctx, c, id, key); known != nil || lost != nil { // a concurrent request came first
		return nil, known, lost
	}
	return nil, nil, err
}

// resumedBy returns the run, and its state before an earlier request with the key resumed it. It
// returns nil if no such request did. It fails with a [*httpapi.Problem] if the earlier request was
// different.
func (r *Service) resumedBy(ctx context.Context, c *httpapi.Caller, id string, key Key) (*Earlier, error) {
	info, err := r.Find(ctx, c, id)
	if err != nil {
		return nil, err
	}
	h, _, err := r.historyOf(ctx, c.Tenant.ID(), id)
	if err != nil {
		return nil, err
	}
	for _, a := range h.Answered {
		if a.Request == nil || a.Request.Key != key.hash(c) {
			continue
		}
		if a.Request.Digest != key.digest {
			return nil, reusedKey("resumed", id)
		}
		return &Earlier{Run: info, After: a.Request.After, Before: a.Request.Usage}, nil
	}
	return nil, nil //nolint:nilnil // no earlier request is no error
}
