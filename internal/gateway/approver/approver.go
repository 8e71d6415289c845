// Package approver asks an HTTP endpoint of the operator about tool calls for which a gate wants an
// approval. Anything but a valid answer in time denies the call: an endpoint that fails, hangs or
// redirects allows nothing.
package approver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
)

// Defaults and limits.
const (
	DefaultTimeout = time.Minute
	maxAnswer      = 64 << 10  // bytes of an answer
	maxQuestion    = 512 << 10 // bytes of a question
	maxWaiting     = 64        // questions at the same time
	maxReason      = 2 << 10   // bytes of an answer's reason
)

// Options configure an approver. They are copied.
type Options struct {
	URL     string
	Key     string        // sent as a bearer token if not empty
	Timeout time.Duration // limits a question with its answer; the default is DefaultTimeout
	Shared  bool          // several keys of clients share the approver; one takes at most half of it
}

// An Approver sends questions to the endpoint of its options. It is safe for concurrent use.
type Approver struct {
	o       Options
	client  *http.Client
	waiting *budget.Slots
}

// New returns an approver. It returns an error if the URL is not an absolute http or https URL.
func New(o Options) (*Approver, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url: want an address such as https://approvals.example.com/ask")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxWaiting
	return &Approver{o: o, waiting: budget.NewSlots(maxWaiting, o.Shared), client: &http.Client{
		Transport: t,
		// The question contains the arguments of a call, which must not be sent to the address of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (a *Approver) Close() { a.client.CloseIdleConnections() }

// A Question is a tool call that needs an approval.
type Question struct {
	Run       string `json:"run"`
	Route     string `json:"route"`
	Model     string `json:"model"`
	Key       string `json:"key,omitempty"` // the name of the client's key
	Call      Call   `json:"call"`
	Asks      []Ask  `json:"asks"`       // the questions of the gates about the call, at least one
	ExpiresMS int64  `json:"expires_ms"` // when the gateway stops waiting, Unix time in milliseconds
}

// A Call is a tool call that the model has requested.
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// An Ask is the question of one gate.
type Ask struct {
	Entry   string          `json:"entry"`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// The decisions of an answer.
const (
	Allow = "allow"
	Deny  = "deny"
)

// An Answer is the answer of the endpoint.
type Answer struct {
	Decision string `json:"decision"` // allow or deny
	Reason   string `json:"reason"`   // the model reads it
	Approver string `json:"approver"` // the person who decided; it is logged
}

// Ask sends the question to the endpoint and returns its answer. It sets ExpiresMS. It fails if too many questions
// wait, if the question is too large, or if there is no valid answer within the timeout. If the error is not nil, the
// call is denied.
func (a *Approver) Ask(ctx context.Context, q Question) (*Answer, error) {
	free, err := a.waiting.Take(q.Key)
	if err != nil {
		return nil, fmt.Errorf("too many questions wait for the approver: %w", err)
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	if end, ok := ctx.Deadline(); ok {
		q.ExpiresMS = end.UnixMilli()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(body) > maxQuestion {
		return nil, fmt.Errorf("the question has more than %d bytes", maxQuestion)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+a.o.Key)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the approver answered %.60s; want 200", res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	return parse(b)
}

// failure returns err without the endpoint's address, which may contain a secret.
func (a *Approver) failure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the approver did not answer within %v", a.o.Timeout)
	}
	if with, ok := errors.AsType[*url.Error](err); ok {
		err = with.Err
	}
	return fmt.Errorf("the approver cannot be reached: %w", err)
}

func parse(b []byte) (*Answer, error) {
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("the approver's answer has more than %d bytes", maxAnswer)
	}
	var out Answer
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, errors.New("the approver's answer is no JSON object")
	}
	if out.Decision != Allow && out.Decision != Deny {
		return nil, fmt.Errorf("the approver's decision is %.40q; want allow or deny", out.Decision)
	}
	out.Reason, out.Approver = safetext.Clip(out.Reason, maxReason), safetext.Clip(out.Approver, 256)
	return &out, nil
}
