package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

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
