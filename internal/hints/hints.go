// Package hints passes short messages between the servers that share a database. A hint asks the
// other servers to read the database immediately instead of at their next regular poll. A hint may be
// lost, delayed or received twice, so receivers must check it against the database.
//
// [Bus] has two implementations: package notify uses PostgreSQL's NOTIFY, and package natsbus core
// NATS. A single server uses neither, and has
// [None]. Package hintstest tests all of them.
package hints

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A Bus passes hints between servers. It is safe for concurrent use.
type Bus interface {
	// Publish sends a hint to all subscribers of a topic, including the subscribers in this server. It does not wait:
	// it drops the hint if too many hints are waiting or if the transport is down. It fails with an error that wraps
	// [ErrInvalid] if the topic is invalid, or if the hint is larger than MaxBytes, not UTF-8, or contains NUL.
	Publish(topic string, hint []byte) error
	// Subscribe calls receive for each hint of a topic, one at a time, until cancel is called.
	// receive must not block and must not keep the hint.
	Subscribe(topic string, receive func(hint []byte)) (cancel func(), err error)
	// SubscribeGroup is like Subscribe, but a hint need not reach all subscribers of the group: NATS sends it to one
	// of them, NOTIFY to all.
	SubscribeGroup(topic, group string, receive func(hint []byte)) (cancel func(), err error)
	// MaxBytes returns the maximum size of a hint, in bytes.
	MaxBytes() int
	// Close ends all subscriptions and the connection.
	Close() error
}

// ErrInvalid is the error of an invalid topic or hint.
var ErrInvalid = errors.New("invalid hint")

// maxTopic is the size limit of topics and groups, in bytes.
const maxTopic = 128

// CheckTopic fails with [ErrInvalid] unless name, a topic or a group, consists of 1 to 128 letters,
// digits, hyphens, underscores and single dots between them.
func CheckTopic(name string) error {
	if name == "" || len(name) > maxTopic {
		return fmt.Errorf("%w: a topic of %d bytes, want 1 to %d", ErrInvalid, len(name), maxTopic)
	}
	dot := true // a dot may not come first
	for _, c := range []byte(name) {
		switch {
		case c == '.' && !dot:
			dot = true
			continue
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			dot = false
			continue
		}
		return fmt.Errorf("%w: topic %.40q", ErrInvalid, name)
	}
	if dot {
		return fmt.Errorf("%w: topic %.40q ends with a dot", ErrInvalid, name)
	}
	return nil
}

// Check fails with [ErrInvalid] if the topic is invalid, or if the hint has more than maxBytes bytes, is not
// UTF-8, or contains NUL, which NOTIFY cannot send.
func Check(topic string, hint []byte, maxBytes int) error {
	if len(hint) > maxBytes {
		return fmt.Errorf("%w: %d bytes for %s, want at most %d", ErrInvalid, len(hint), topic, maxBytes)
	}
	if !utf8.Valid(hint) || bytes.IndexByte(hint, 0) >= 0 {
		return fmt.Errorf("%w: the hint for %s is not UTF-8 without NUL", ErrInvalid, topic)
	}
	return CheckTopic(topic)
}
