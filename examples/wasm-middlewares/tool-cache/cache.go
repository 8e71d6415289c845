package main

import (
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A cached is a cached answer and the time at which it was cached.
type cached struct {
	Result json.RawMessage `json:"result"`
	AtMS   int64           `json:"at_ms"`
}

// A resultCache is a store of answers. The version of a missing answer is 0.
type resultCache interface {
	load(ctx *middleware.Context, key string) (answer cached, version int64, err error)
	// save stores an answer, unless another one was stored after version was loaded.
	save(ctx *middleware.Context, key string, answer cached, version int64) error
	// generation counts the invalidations. It is part of each key, so old answers are never
	// found again and need no deletion.
	generation(ctx *middleware.Context) (int64, error)
	clear(ctx *middleware.Context) error
}

const (
	answerKey     = "answer/"
	generationKey = "generation"
)

// A runCache stores answers as run-local values.
type runCache struct{}

func (runCache) load(ctx *middleware.Context, key string) (cached, int64, error) {
	return middleware.Local[cached](answerKey + key).Load(ctx)
}

func (runCache) save(ctx *middleware.Context, key string, answer cached, version int64) error {
	_, err := middleware.Local[cached](answerKey+key).CompareAndSet(ctx, answer, version)
	return err
}

func (runCache) generation(ctx *middleware.Context) (int64, error) {
	return middleware.Counter(generationKey).Get(ctx)
}

func (runCache) clear(ctx *middleware.Context) error {
	_, err := middleware.Counter(generationKey).Add(ctx, 1)
	return err
}

// A storeCache stores answers durably, for all runs.
type storeCache struct{ ttl time.Duration }

func (s storeCache) load(ctx *middleware.Context, key string) (cached, int64, error) {
	return middleware.Stored[cached](answerKey + key).Load(ctx)
}

func (s storeCache) save(ctx *middleware.Context, key string, answer cached, version int64) error {
	_, err := middleware.Stored[cached](answerKey+key).CompareAndSet(ctx, answer, version, s.ttl)
	return err
}

func (storeCache) generation(ctx *middleware.Context) (int64, error) {
	return middleware.StoredCounter(generationKey).Get(ctx)
}

func (storeCache) clear(ctx *middleware.Context) error {
	_, err := middleware.StoredCounter(generationKey).Add(ctx, 1)
	return err
}
