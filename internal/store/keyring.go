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

// ErrNoKeyring is the error where secrets are used without a [Keyring], or with one
// that has not the key that sealed them.
var ErrNoKeyring = errors.New("there is no key for secrets")

// A Keyring seals secrets with AES-256-GCM. Its first key seals; the others
// open what they sealed before the first one took their place.
type Keyring struct {
	names []string
	keys  map[string]cipher.AEAD
}

// ParseKeyring reads keys, one a line, as name:key with the key's 32 bytes in
// base64. Empty lines, and those that begin with #, are left out.
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
			return nil, errors.New("keys for secrets: want lines of name:key, with a name of small letters, digits, dots and dashes")
		case r.keys[name] != nil:
			return nil, fmt.Errorf("keys for secrets: there are two named %s", name)
		}
		b, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(b) != 32 {
			return nil, fmt.Errorf("keys for secrets: %s: want 32 bytes in base64, as `openssl rand -base64 32` prints them", name)
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

// seal seals a secret for one place: it cannot be opened for another.
func (r *Keyring) seal(secret []byte, place string) (by string, sealed []byte, err error) {
	if r == nil {
		return "", nil, ErrNoKeyring
	}
	key := r.keys[r.names[0]]
	nonce := make([]byte, key.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return r.names[0], key.Seal(nonce, nonce, secret, []byte(place)), nil
}

// open opens what seal sealed.
func (r *Keyring) open(by string, sealed []byte, place string) ([]byte, error) {
	if r == nil {
		return nil, ErrNoKeyring
	}
	key := r.keys[by]
	if key == nil {
		return nil, fmt.Errorf("%w: it was sealed by %q, which is not among the keys for secrets", ErrNoKeyring, by)
	}
	if len(sealed) > key.NonceSize() {
		if secret, err := key.Open(nil, sealed[:key.NonceSize()], sealed[key.NonceSize():], []byte(place)); err == nil {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("%w: it was not sealed by the key that is named %q now, or it was changed or moved since", ErrNoKeyring, by)
}
