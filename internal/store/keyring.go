package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrNoKeyring is the error of using secrets without a [Keyring], or with one that lacks the
// key that sealed them. Opening a secret that was changed or moved also fails with it.
var ErrNoKeyring = errors.New("there is no key for secrets")

// A Keyring seals secrets with AES-256-GCM. Its first key seals new secrets; all keys open
// the secrets that they sealed.
type Keyring struct {
	names []string
	keys  map[string]cipher.AEAD
}

// ParseKeyring parses lines of name:key, with the key's 32 bytes in base64. It ignores empty lines
// and lines that start with #. It fails if another line is malformed, a name is repeated, or there
// is no key.
//
//	2026-06:yQ3Yc0o…=
//	2025-11:Zm9vYmF…=
func ParseKeyring(text string) (*Keyring, error) {
	r := &Keyring{keys: map[string]cipher.AEAD{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, key, ok := strings.Cut(line, ":")
		switch {
		case !ok || !Name.MatchString(name):
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

// seal encrypts a secret with the first key, and returns the name of that key and the ciphertext.
// The ciphertext authenticates the secret's location: it cannot be opened for another one.
func (r *Keyring) seal(secret []byte, location string) (by string, sealed []byte, err error) {
	if r == nil {
		return "", nil, ErrNoKeyring
	}
	key := r.keys[r.names[0]]
	nonce := make([]byte, key.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return r.names[0], key.Seal(nonce, nonce, secret, []byte(location)), nil
}

// open decrypts a secret that seal encrypted for a location. by is the name of the key that seal
// returned. It fails with [ErrNoKeyring] if the keyring cannot open the secret.
func (r *Keyring) open(by string, sealed []byte, location string) ([]byte, error) {
	if r == nil {
		return nil, ErrNoKeyring
	}
	key := r.keys[by]
	if key == nil {
		return nil, fmt.Errorf("%w: the secret was sealed with key %q, which is missing", ErrNoKeyring, by)
	}
	if len(sealed) > key.NonceSize() {
		if secret, err := key.Open(nil, sealed[:key.NonceSize()], sealed[key.NonceSize():], []byte(location)); err == nil {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("%w: the key named %q did not seal the secret, or the secret was changed or moved",
		ErrNoKeyring, by)
}
