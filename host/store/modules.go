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
	return digest, s.update(ctx, false, func(t tx) error {
		_, err := t.exec(`INSERT INTO modules (digest, size, created_ms, wasm) VALUES ($1, $2, NOW_MS, $3) ON CONFLICT (digest) DO UPDATE SET created_ms = NOW_MS`,
			digest, int64(len(wasm)), wasm)
		return err
	})
}

// Module implements [Store].
func (s *store) Module(ctx context.Context, digest string) ([]byte, error) {
	var wasm []byte
	err := s.view(ctx, func(t tx) error {
		var b []byte
		found, err := one(t, `SELECT wasm FROM modules WHERE digest = $1`, []any{digest}, &b)
		if err == nil && !found {
			err = ownError{fmt.Errorf("sha256:%s: %w", digest, ErrNoModule)}
		}
		wasm = bytes.Clone(b)
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
