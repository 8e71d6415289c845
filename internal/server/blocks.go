package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// blockEvery is how often blocks of other servers are looked for. A module is
// to stop within a second of its block.
const blockEvery = 500 * time.Millisecond

// blocks are the modules that the operator keeps from being called.
type blocks struct {
	store store.Store
	log   *slog.Logger
	now   atomic.Pointer[blockList]
}

// A blockList is what is blocked, and is never changed: changed is closed when
// there is another one.
type blockList struct {
	reasons map[string]string
	changed chan struct{}
}

func newBlocks(s store.Store, log *slog.Logger) *blocks {
	b := &blocks{store: s, log: log}
	b.now.Store(&blockList{changed: make(chan struct{})})
	return b
}

// reason says why a module is blocked, and whether it is.
func (b *blocks) reason(digest string) (string, bool) {
	why, ok := b.now.Load().reasons[digest]
	return why, ok
}

// current is what is blocked, with a channel that is closed when that changes.
func (b *blocks) current() (reasons map[string]string, changed <-chan struct{}) {
	l := b.now.Load()
	return l.reasons, l.changed
}

// watch looks for blocks until ctx ends.
func (b *blocks) watch(ctx context.Context) {
	ticker := time.NewTicker(blockEvery)
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
func (b *blocks) refresh(ctx context.Context) error {
	// What is known is looked at first: another refresh that ends in between has read
	// later than this one, perhaps, and is not to be undone.
	old, same := b.now.Load(), true
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
	if b.now.CompareAndSwap(old, &blockList{reasons: reasons, changed: make(chan struct{})}) {
		close(old.changed)
		return nil
	}
	return b.refresh(ctx) // another refresh was quicker, perhaps with less
}

// A Block is a blocked module as the API shows it.
type Block struct {
	Digest  string    `json:"digest"`
	Reason  string    `json:"reason"`
	Created time.Time `json:"created"`
}

type (
	// DigestPath is a part of inputs.
	DigestPath struct {
		Digest string `path:"digest" pattern:"^(sha256:)?[0-9a-f]{64}$" doc:"The module's SHA-256 in hexadecimal."`
	}
	blockInput struct {
		DigestPath
		Body struct {
			Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"The reason. Tenants whose runs end because of the block see it."`
		}
	}
	blocksOutput struct {
		Body struct {
			Blocks []Block `json:"blocks" nullable:"false"`
			ListOutput
		}
	}
)

func (b *blocks) routes(s *Server) {
	const tag, path = "blocks", "/v1/blocks/{digest}"
	route(s, Route{ID: "block-module", Method: "PUT", Path: path, Scope: OperatorScope, Tag: tag, Control: true, Summary: "Block a module",
		About: "Within a second, no server of the database calls the module any more, for any tenant. Active runs that use it end."}, b.block)
	route(s, Route{ID: "unblock-module", Method: "DELETE", Path: path, Scope: OperatorScope, Tag: tag, Summary: "Unblock a module"}, b.unblock)
	route(s, Route{ID: "list-blocks", Method: "GET", Path: "/v1/blocks", Scope: OperatorScope, Tag: tag, Summary: "List blocked modules", About: aboutLists}, b.list)
}

func (b *blocks) block(ctx context.Context, _ *Caller, in *blockInput) (*struct{}, error) {
	if err := b.store.Block(ctx, bare(in.Digest), in.Body.Reason); err != nil {
		return nil, err
	}
	return nil, b.refresh(ctx)
}

func (b *blocks) unblock(ctx context.Context, _ *Caller, in *DigestPath) (*struct{}, error) {
	if err := b.store.Unblock(ctx, bare(in.Digest)); err != nil {
		return nil, err
	}
	return nil, b.refresh(ctx)
}

func (b *blocks) list(ctx context.Context, _ *Caller, in *LongListInput) (*blocksOutput, error) {
	page, err := in.page(listBlocks, store.Operator, in.Limit)
	if err != nil {
		return nil, err
	}
	list, next, err := b.store.Blocks(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &blocksOutput{}
	out.Body.Blocks = []Block{}
	out.Body.setNext(listBlocks, store.Operator, next)
	for _, x := range list {
		out.Body.Blocks = append(out.Body.Blocks, Block{Digest: digestPrefix + x.Digest, Reason: x.Reason, Created: x.Created.UTC()})
	}
	return out, nil
}
