package blocks

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// blockEvery is how often blocks of other servers are looked for. A module is
// to stop within a second of its block.
const pollInterval = 500 * time.Millisecond

// blocks are the modules that the operator keeps from being called.
type List struct {
	store   store.Store
	log     *slog.Logger
	current atomic.Pointer[snapshot]
}

// A blockList is what is blocked, and is never changed: changed is closed when
// there is another one.
type snapshot struct {
	reasons map[string]string
	changed chan struct{}
}

func NewList(s store.Store, log *slog.Logger) *List {
	b := &List{store: s, log: log}
	b.current.Store(&snapshot{changed: make(chan struct{})})
	return b
}

// reason says why a module is blocked, and whether it is.
func (b *List) Reason(digest string) (string, bool) {
	why, ok := b.current.Load().reasons[digest]
	return why, ok
}

// current is what is blocked, with a channel that is closed when that changes.
func (b *List) Current() (reasons map[string]string, changed <-chan struct{}) {
	l := b.current.Load()
	return l.reasons, l.changed
}

// watch looks for blocks until ctx ends.
func (b *List) Watch(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("blocks of modules cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// refresh reads what is blocked.
func (b *List) refresh(ctx context.Context) error {
	// What is known is looked at first: another refresh that ends in between has read
	// later than this one, perhaps, and is not to be undone.
	old, same := b.current.Load(), true
	list, err := b.store.Blocked(ctx)
	if err != nil {
		return err
	}
	reasons := make(map[string]string, len(list))
	for _, block := range list {
		was, ok := old.reasons[block.Digest]
		same = same && ok && was == block.Reason
		reasons[block.Digest] = block.Reason
	}
	if same && len(reasons) == len(old.reasons) {
		return nil
	}
	if b.current.CompareAndSwap(old, &snapshot{reasons: reasons, changed: make(chan struct{})}) {
		close(old.changed)
		return nil
	}
	return b.refresh(ctx) // another refresh was quicker, perhaps with less
}
