// Package keyring seals the secrets of tenants with keys of the operator.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNoKey is the error of using secrets without a [Keyring], or with one that lacks the key that
// sealed them. Opening a secret that was changed or moved also fails with it.
var ErrNoKey = errors.New("there is no key for secrets")

// keyName matches the names of keys.
var keyName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// A Keyring seals secrets with AES-256-GCM. Its first key seals new secrets; all keys open
// the secrets that they sealed. A nil Keyring has no keys.
type Keyring struct {
	names []string
	keys  map[string]cipher.AEAD
}

// Parse parses lines of name:key, with the key's 32 bytes in base64. It ignores empty lines
// and lines that start with #. It fails if another line is malformed, a name is repeated, or there
// is no key.
//
//	2026-06:yQ3Yc0o…=
//	2025-11:Zm9vYmF…=
func Parse(text string) (*Keyring, error) {
	r := &Keyring{keys: map[string]cipher.AEAD{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, key, ok := strings.Cut(line, ":")
		switch {
		case !ok || !keyName.MatchString(name):
			return nil, errors.New(
				"keys for secrets: want lines of name:key, with a name of lowercase letters, digits, dots and dashes",
			)
		case r.keys[name] != nil:
			return nil, fmt.Errorf("keys for secrets: two keys are named %s", name)
		}
		b, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(b) != 32 {
			return nil, fmt.Errorf("keys for secrets: %s: want 32 bytes in base64, as `openssl rand -base64 32` prints them",
				name)
		}
		block, err := aes.NewCipher(b)
		if err != nil {
			return nil, err
		}
		if r.keys[name], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		r.names = append(r.names, name)
	}
	if len(r.names) == 0 {
		return nil, errors.New("keys for secrets: there are none; want lines of name:key")
	}
	return r, nil
}

// Seal encrypts a secret with the first key, and returns the name of that key and the ciphertext.
// The ciphertext authenticates the secret's location: it cannot be opened for another one. Seal fails
// with [ErrNoKey] if r is nil.
func Seal(r *Keyring, secret []byte, location string) (by string, sealed []byte, err error) {
	if r == nil {
		return "", nil, ErrNoKey
	}
	key := r.keys[r.names[0]]
	nonce := make([]byte, key.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return r.names[0], key.Seal(nonce, nonce, secret, []byte(location)), nil
}

// Open decrypts a secret that Seal encrypted for a location. by is the name of the key that Seal
// returned. It fails with [ErrNoKey] if the keyring cannot open the secret.
func Open(r *Keyring, by string, sealed []byte, location string) ([]byte, error) {
	if r == nil {
		return nil, ErrNoKey
	}
	key := r.keys[by]
	if key == nil {
		return nil, fmt.Errorf("%w: the secret was sealed with key %q, which is missing", ErrNoKey, by)
	}
	if len(sealed) > key.NonceSize() {
		if secret, err := key.Open(nil, sealed[:key.NonceSize()], sealed[key.NonceSize():], []byte(location)); err == nil {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("%w: the key named %q did not seal the secret, or the secret was changed or moved",
		ErrNoKey, by)
}
