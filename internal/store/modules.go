package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// PutModule implements [Store].
func (s *store) PutModule(ctx context.Context, wasm []byte) (string, error) {
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	// A known one is as young as a new one: whoever puts it is about to name it.
	known := int64(0)
	err := s.update(ctx, true, func(t tx) (err error) {
		known, err = t.exec(`UPDATE modules SET created_ms = NOW_MS WHERE digest = $1`, digest)
		return err
	})
	if err != nil || known > 0 {
		return digest, err
	}
	return digest, s.staged(ctx, nil, nil, func(bodies []*body) error {
		return s.update(ctx, false, func(t tx) error {
			b, has := bodies[0], ""
			if _, err := one(t, `INSERT INTO modules (digest, size, created_ms, wasm, pieces) VALUES ($1, $2, NOW_MS, $3, $4)
				ON CONFLICT (digest) DO UPDATE SET created_ms = NOW_MS RETURNING pieces`, []any{digest, int64(len(wasm)), b.inRow, b.pieces}, &has); err != nil || has != b.pieces {
				return err // another one put it meanwhile
			}
			return b.take(t)
		})
	}, wasm)
}

// Module implements [Store].
func (s *store) Module(ctx context.Context, digest string) ([]byte, error) {
	var wasm []byte
	err := s.view(ctx, func(t tx) error {
		var b body
		found, err := one(t, `SELECT wasm, pieces FROM modules WHERE digest = $1`, []any{digest}, &b.inRow, &b.pieces)
		if err != nil {
			return err
		}
		if !found {
			return ownError{fmt.Errorf("sha256:%s: %w", digest, ErrNoModule)}
		}
		b.inRow = bytes.Clone(b.inRow)
		wasm, err = b.whole(t)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != digest {
		return nil, &Error{Corrupt, "", fmt.Errorf("the bytes of module sha256:%s have another digest", digest)}
	}
	return wasm, nil
}
