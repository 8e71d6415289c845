package server

import (
	"context"
	"time"
)

// Of large inputs of a tenant one is read, and one is written into the journal, at a time.
// Each counts for more than that took, the more the larger it is, since it is sent to
// modules and models as well. What is written leaves the disk, which all tenants share, to
// others before the next, too: without that, who sends one after the other is there at
// each moment.
const (
	largeInput   = 64 << 10
	largeRest    = 3         // times as long as it took
	largeMore    = 128 << 10 // and once more for each so many bytes: others wait for all of them at once, see [Caller.weigh]
	largeWaiters = 64
)

func newLarge() *turns { return newTurns("large inputs", 1<<20, 1, largeWaiters) }

// newReading are turns of those who read large inputs, on a processor.
func newReading(processors *turns, work *paces, others wanted) *paced {
	return &paced{own: newLarge(), all: processors, paces: work, wanted: others}
}

// smallBody is the size of a body that is read without a turn: it takes less than one.
const smallBody = 32 << 10

// read calls fn, which reads a body of so many bytes of the caller's, when it is its turn.
func (s *Server) read(ctx context.Context, c *Caller, bytes int, fn func() error) error {
	c.body = bytes
	if bytes <= smallBody {
		return fn()
	}
	if bytes <= largeInput {
		done, err := s.processors.take(ctx, c.Key.Tenant)
		if err != nil {
			return err
		}
		defer done()
		return fn()
	}
	end, err := s.reading.begin(ctx, c.Key.Tenant)
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() { end(c.weigh(time.Since(began)), s.reading.wanted) }()
	return fn()
}

// weigh is what it counts as that the caller's large input was worked on for so long.
func (c *Caller) weigh(took time.Duration) time.Duration {
	return took + took*time.Duration(c.body/largeMore)/largeRest
}

// keep waits until an input of the caller's may be written, which done ends. One that is
// not large does not wait.
func (s *Server) keep(ctx context.Context, c *Caller) (done func(), err error) {
	if c.body <= largeInput {
		return func() {}, nil
	}
	end, err := s.keeping.take(ctx, c.Key.Tenant)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() {
		took := c.weigh(time.Since(began))
		time.AfterFunc(max(s.spent.rest(c.Key.Tenant, took, nil), min(largeRest*took, mostRest)), end)
	}, nil
}
