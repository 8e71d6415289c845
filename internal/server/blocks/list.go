package blocks

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/store"
)

// pollInterval is the time between two reads of the list from the store, where other servers may
// have changed it. A block must take effect within a second, even if the hint about it is lost.
const pollInterval = 500 * time.Millisecond

// topic is the topic of hints that the list has changed.
const topic = "blocks"

// A List holds the modules that the operator blocks.
type List struct {
	store   store.Store
	bus     hints.Bus
	log     *slog.Logger
	current atomic.Pointer[snapshot]
}

// A snapshot is an immutable state of the list. changed is closed when a newer one replaces it.
type snapshot struct {
	reasons map[string]string
	changed chan struct{}
}

// NewList returns a list that is empty until it is first read from the store. The bus reaches the
// other servers of the store.
func NewList(s store.Store, bus hints.Bus, log *slog.Logger) *List {
	b := &List{store: s, bus: bus, log: log}
	b.current.Store(&snapshot{changed: make(chan struct{})})
	return b
}

// Reason returns the operator's reason for blocking a module, and reports whether it is blocked.
func (b *List) Reason(digest string) (string, bool) {
	why, ok := b.current.Load().reasons[digest]
	return why, ok
}

// Current returns the operator's reasons, keyed by the digests of the blocked modules, and a
// channel that is closed when the list changes.
func (b *List) Current() (reasons map[string]string, changed <-chan struct{}) {
	l := b.current.Load()
	return l.reasons, l.changed
}

// Watch reads the list from the store at each hint, and twice a second, until ctx is done.
func (b *List) Watch(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	hinted, stop, err := hints.Signal(b.bus, topic)
	if err != nil {
		b.log.Error("subscribe to changes of blocks", "error", err)
	}
	defer stop()
	for {
		if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("read blocked modules", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-hinted:
		}
	}
}

// changed tells the other servers that the list has changed, and reads it from the store.
func (b *List) changed(ctx context.Context) error {
	if err := b.bus.Publish(topic, nil); err != nil {
		b.log.Error("send a hint", "topic", topic, "error", err)
	}
	return b.refresh(ctx)
}

// refresh reads the list from the store, and replaces the snapshot if the list has changed.
func (b *List) refresh(ctx context.Context) error {
	// The current snapshot is loaded before the store is read: if another refresh replaces it
	// meanwhile, that one may have read newer data.
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
	return b.refresh(ctx) // another refresh replaced the snapshot, perhaps with older data
}
