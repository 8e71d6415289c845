package cassette

import (
	"context"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// A Replay is a model that answers the requests of one run from a cassette, in order. A
// request must have the recorded messages and tools. The model's name, the parameters and
// the host's internal fields of messages are not compared.
type Replay struct {
	cassette *Cassette

	mu   sync.Mutex
	next int
	seek bool // search for the interaction of the first request
}

// Replay returns a model that starts at the first interaction.
func (c *Cassette) Replay() *Replay { return &Replay{cassette: c} }

// Resume returns a model for a run that resumes in the middle of the recording. The model
// starts at the first interaction that matches the run's first request, or at the first
// interaction of the recording if none does.
func (c *Cassette) Resume() *Replay { return &Replay{cassette: c, seek: true} }

// Left returns the number of interactions that have not been replayed.
func (r *Replay) Left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.cassette.interactions) - r.next
}

// A DivergedError reports a request that differs from the recorded one.
type DivergedError struct {
	Cassette    string // the file
	Interaction int    // starts at 1; beyond the last one if the recording is exhausted
	Path        string // the first difference, such as messages[2].content; "" if the recording is exhausted
	Message     string // the full message, with a diff
}

// Error returns the message.
func (e *DivergedError) Error() string { return e.Message }

// Generate implements [model.Model]. A request that differs from the recorded one fails with
// an error that wraps a [*DivergedError], and does not consume the interaction.
func (r *Replay) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	it, err := r.take(req)
	if err != nil {
		return nil, err
	}
	if sink != nil {
		for _, c := range it.chunks() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if it.Error != nil {
		return nil, failure(it.Error)
	}
	res := *it.Response
	if res.Usage != nil {
		usage := *res.Usage
		res.Usage = &usage
	}
	res.Message.ToolCalls = append([]abi.ToolCall(nil), res.Message.ToolCalls...)
	return &res, nil
}

func (it *interaction) chunks() []abi.Chunk {
	if it.Chunks != nil || it.Response == nil {
		return it.Chunks
	}
	return it.Response.Message.Chunks()
}

// take returns and consumes the next interaction if it matches the request. If it does not match, or
// if there is none left, the error wraps a [*DivergedError]. If r.seek is set, take first moves to
// the interaction that matches the request, if there is one.
func (r *Replay) take(req *model.Request) (*interaction, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cassette
	if r.seek {
		r.seek = false
		for i := range c.interactions {
			if d, err := compare(&c.interactions[i], req); err == nil && d == nil {
				r.next = i
				break
			}
		}
	}
	if r.next == len(c.interactions) {
		return nil, diverged(&DivergedError{
			Cassette: c.name, Interaction: r.next + 1,
			Message: fmt.Sprintf(
				"%s: the recording has only %d interactions, and the agent called the model once more; record the conversation again, or find out why it is longer",
				c.name,
				len(c.interactions),
			),
		})
	}
	it := &c.interactions[r.next]
	d, err := compare(it, req)
	switch {
	case err != nil:
		return nil, model.Errorf(abi.CodeInvalid, "the request cannot be compared with the recording: %w", err)
	case d != nil:
		return nil, diverged(&DivergedError{
			Cassette: c.name, Interaction: r.next + 1, Path: d.path,
			Message: fmt.Sprintf(
				"%s: the conversation has left the recording: interaction %d of %d differs at %s%s\n--- recorded\n+++ this run\n%s",
				c.name,
				r.next+1,
				len(c.interactions),
				d.path,
				d.note,
				d.diff,
			),
		})
	}
	r.next++
	return it, nil
}

func diverged(e *DivergedError) error {
	return &model.Error{Code: abi.CodeModel, Message: e.Message, Err: e}
}
