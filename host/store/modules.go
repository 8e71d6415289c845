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
	known := false
	err := s.view(ctx, func(t tx) (err error) {
		var size int64
		known, err = one(t, `SELECT size FROM modules WHERE digest = $1`, []any{digest}, &size)
		return err
	})
	if err != nil || known {
		return digest, err
	}
	return digest, s.update(ctx, false, func(t tx) error {
		_, err := t.exec(`INSERT INTO modules (digest, size, created_ms, wasm) VALUES ($1, $2, NOW_MS, $3) ON CONFLICT (digest) DO NOTHING`,
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
