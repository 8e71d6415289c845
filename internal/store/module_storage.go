package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// PutModule implements [Store].
func (s *store) PutModule(ctx context.Context, wasm []byte) (string, error) {
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	// Renew the age of a stored module, because the caller is about to refer to it.
	stored := int64(0)
	err := s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) (err error) {
		stored, err = t.Exec(`UPDATE modules SET created_ms = NOW_MS WHERE digest = $1`, digest)
		return err
	})
	if err != nil || stored > 0 {
		return digest, err
	}
	return digest, s.blobs.Write(ctx, blob.Options{}, func(bodies []*blob.Body) error {
		return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			b, pieces := bodies[0], ""
			if _, err := database.One(t, `INSERT INTO modules (digest, size, created_ms, wasm, pieces) VALUES ($1, $2, NOW_MS, $3, $4)
				ON CONFLICT (digest) DO UPDATE SET created_ms = NOW_MS RETURNING pieces`, []any{digest, int64(len(wasm)), b.InRow, b.Pieces}, &pieces); err != nil ||
				pieces != b.Pieces {
				return err // another process stored it in the meantime
			}
			return b.Adopt(t)
		})
	}, wasm)
}

// Module implements [Store].
func (s *store) Module(ctx context.Context, digest string) ([]byte, error) {
	var wasm []byte
	err := s.db.View(ctx, func(t database.Tx) error {
		var b blob.Body
		found, err := database.One(t, `SELECT wasm, pieces FROM modules WHERE digest = $1`,
			[]any{digest}, &b.InRow, &b.Pieces)
		if err != nil {
			return err
		}
		if !found {
			return database.ForCaller(fmt.Errorf("sha256:%s: %w", digest, ErrNoModule))
		}
		b.InRow = bytes.Clone(b.InRow)
		if wasm, err = b.Read(t); err != nil {
			return err
		}
		if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != digest {
			return database.Corruptf("module sha256:%s has bytes with another digest", digest)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return wasm, nil
}

const (
	unusedPage     = 10_000           // maximum number of modules in one search
	unusedRunsPage = 1000             // maximum number of runs read in one transaction
	unusedMargin   = 10 * time.Second // time before the search in which runs count as created during the search
)

var digests = regexp.MustCompile(`[0-9a-f]{64}`)

// DeleteUnusedModules implements [Platform]. It searches the modules of all runs while others can
// write. Each transaction that deletes modules also reads the runs created since the search began.
func (s *store) DeleteUnusedModules(ctx context.Context, age time.Duration) (n int64, err error) {
	after := ""
	for {
		since, unused, err := s.unnamedModules(ctx, age, after)
		if err != nil {
			return n, err
		}
		if len(unused) == 0 {
			return n, s.blobs.Sweep(ctx)
		}
		after = unused[len(unused)-1]
		used, err := s.usedByRuns(ctx, unused)
		if err != nil {
			return n, err
		}
		unused = slices.DeleteFunc(unused, func(d string) bool { return used[d] })
		if err := database.InBatches(ctx, func() (bool, error) {
			deleted, rest := int64(0), unused
			err := s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) (err error) {
				deleted, rest, err = deleteUnused(t, unused, age, since)
				return err
			})
			n, unused = n+deleted, rest
			return len(unused) > 0, err
		}); err != nil {
			return n, err
		}
	}
}

// unnamedModules returns a page of the digests, in order, of the modules that are older than age
// and belong to no tenant. All of them are greater than the digest after. atMS is the time of the
// snapshot in milliseconds, by the database's clock.
func (s *store) unnamedModules(
	ctx context.Context,
	age time.Duration,
	after string,
) (atMS int64, unnamed []string, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		if _, err := database.One(t, `SELECT NOW_MS`, nil, &atMS); err != nil {
			return err
		}
		unnamed, err = database.Strings(t, `SELECT digest FROM modules WHERE digest > $1 AND created_ms < NOW_MS - $2
			AND NOT EXISTS (SELECT 1 FROM tenant_modules WHERE tenant_modules.digest = modules.digest) ORDER BY digest LIMIT $3`,
			after, age.Milliseconds(), int64(unusedPage))
		return err
	})
	return atMS, unnamed, err
}

// usedByRuns returns the modules among the given ones with which any run started. The given modules
// must be ordered by digest.
func (s *store) usedByRuns(ctx context.Context, modules []string) (map[string]bool, error) {
	used := map[string]bool{}
	for last, n := "", unusedRunsPage; n == unusedRunsPage; {
		n = 0
		err := s.db.View(ctx, func(t database.Tx) error {
			return t.Query(func(scan func(...any) error) error {
				n++
				var pins string
				err := scan(&last, &pins)
				for _, d := range digests.FindAllString(pins, -1) {
					if _, found := slices.BinarySearch(modules, d); found {
						used[d] = true
					}
				}
				return err
			}, `SELECT id, modules FROM runs WHERE id > $1 ORDER BY id LIMIT $2`, last, int64(unusedRunsPage))
		})
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// deleteUnused deletes each of the given modules that is older than age, that no tenant has, and that
// no run uses that was created since sinceMS. It stops after about [database.BatchTime], and returns
// the modules that it has not checked.
func deleteUnused(
	t database.Tx,
	modules []string,
	age time.Duration,
	sinceMS int64,
) (n int64, rest []string, err error) {
	start, used := time.Now(), map[string]bool{}
	if err := t.Query(func(scan func(...any) error) error {
		var pins string
		err := scan(&pins)
		for _, d := range digests.FindAllString(pins, -1) {
			used[d] = true
		}
		return err
	}, `SELECT modules FROM runs WHERE status IN ('running', 'paused', 'finished', 'quarantined') AND created_ms >= $1`, sinceMS-unusedMargin.Milliseconds()); err != nil {
		return 0, modules, err
	}
	for i, d := range modules {
		if used[d] {
			continue
		}
		deleted, err := deleteModule(t, d, age)
		if err != nil {
			return 0, modules, err
		}
		if deleted {
			n++
		}
		if time.Since(start) > database.BatchTime {
			return n, modules[i+1:], nil
		}
	}
	return n, nil, nil
}

// deleteModule deletes a module if it is older than age and no tenant has it. [blob.Writer.Sweep]
// deletes its pieces later.
func deleteModule(t database.Tx, digest string, age time.Duration) (deleted bool, err error) {
	var pieces string
	deleted, err = database.One(t, `DELETE FROM modules WHERE digest = $1 AND created_ms < NOW_MS - $2
		AND NOT EXISTS (SELECT 1 FROM tenant_modules WHERE tenant_modules.digest = modules.digest) RETURNING pieces`, []any{digest, age.Milliseconds()}, &pieces)
	if err != nil || pieces == "" {
		return deleted, err
	}
	return deleted, blob.Release(t, pieces)
}

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
