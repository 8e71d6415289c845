package main

import (
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A kept is a cached answer and its time.
type kept struct {
	Result json.RawMessage `json:"result"`
	AtMS   int64           `json:"at_ms"`
}

// A shelf is a store of answers. The version of a missing answer is 0.
type shelf interface {
	load(ctx *middleware.Context, key string) (answer kept, version int64, err error)
	// save stores an answer, unless another was stored since version was loaded.
	save(ctx *middleware.Context, key string, answer kept, version int64) error
	// generation counts the invalidations. It is part of each key, so old answers are never
	// found again and need no deletion.
	generation(ctx *middleware.Context) (int64, error)
	forget(ctx *middleware.Context) error
}

const (
	answerKey     = "answer/"
	generationKey = "generation"
)

// A runShelf stores answers in the run.
type runShelf struct{}

func (runShelf) load(ctx *middleware.Context, key string) (kept, int64, error) {
	return middleware.Local[kept](answerKey + key).Load(ctx)
}

func (runShelf) save(ctx *middleware.Context, key string, answer kept, version int64) error {
	_, err := middleware.Local[kept](answerKey+key).CompareAndSet(ctx, answer, version)
	return err
}

func (runShelf) generation(ctx *middleware.Context) (int64, error) {
	return middleware.Counter(generationKey).Get(ctx)
}

func (runShelf) forget(ctx *middleware.Context) error {
	_, err := middleware.Counter(generationKey).Add(ctx, 1)
	return err
}

// A storeShelf stores answers durably, for all runs.
type storeShelf struct{ ttl time.Duration }

func (s storeShelf) load(ctx *middleware.Context, key string) (kept, int64, error) {
	return middleware.Stored[kept](answerKey + key).Load(ctx)
}

func (s storeShelf) save(ctx *middleware.Context, key string, answer kept, version int64) error {
	_, err := middleware.Stored[kept](answerKey+key).CompareAndSet(ctx, answer, version, s.ttl)
	return err
}

func (storeShelf) generation(ctx *middleware.Context) (int64, error) {
	return middleware.StoredCounter(generationKey).Get(ctx)
}

func (storeShelf) forget(ctx *middleware.Context) error {
	_, err := middleware.StoredCounter(generationKey).Add(ctx, 1)
	return err
}
