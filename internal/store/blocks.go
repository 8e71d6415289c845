package store

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Block prevents calls of a module.
type Block struct {
	Digest  string
	Reason  string
	Created time.Time
}

// Block implements [Platform].
func (s *store) Block(ctx context.Context, digest, reason string) error {
	return s.db.Update(ctx, database.TxOptions{Priority: true}, func(t database.Tx) error {
		_, err := t.Exec(`INSERT INTO blocked_modules (digest, reason, created_ms) VALUES ($1, $2, NOW_MS)
			ON CONFLICT (digest) DO UPDATE SET reason = $2`, digest, reason)
		if err != nil {
			return err
		}
		return recordOperator(t, ActorOf(ctx), "module.block", "sha256:"+digest, map[string]string{"reason": reason})
	})
}

// Unblock implements [Platform].
func (s *store) Unblock(ctx context.Context, digest string) error {
	return s.db.Update(ctx, database.TxOptions{Priority: true}, func(t database.Tx) error {
		n, err := t.Exec(`DELETE FROM blocked_modules WHERE digest = $1`, digest)
		if err == nil && n == 0 {
			err = database.ForCaller(fmt.Errorf("sha256:%s is not blocked: %w", digest, ErrNoModule))
		}
		if err != nil {
			return err
		}
		return recordOperator(t, ActorOf(ctx), "module.unblock", "sha256:"+digest, nil)
	})
}

// Blocked implements [Platform].
func (s *store) Blocked(ctx context.Context) (out []Block, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			b, err := scanBlock(scan)
			out = append(out, b)
			return err
		}, `SELECT digest, reason, created_ms FROM blocked_modules ORDER BY digest`)
	})
	return out, err
}

func scanBlock(scan func(...any) error) (b Block, err error) {
	var created int64
	err = scan(&b.Digest, &b.Reason, &created)
	b.Created = time.UnixMilli(created)
	return b, err
}

// Blocks implements [Platform].
func (s *store) Blocks(ctx context.Context, p Page) (blocks []Block, next *Position, err error) {
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		blocks, next, err = list(t, p, scanBlock, func(b *Block) Position { return Position{Name: b.Digest} },
			`SELECT digest, reason, created_ms FROM blocked_modules WHERE digest > $1 ORDER BY digest LIMIT $2`, p.name())
		return err
	})
	return blocks, next, err
}
