package hints

import "errors"

// None is the bus of a single server. It drops all hints.
type None struct{}

// Publish implements [Bus].
func (None) Publish(topic string, hint []byte) error { return Check(topic, hint, None{}.MaxBytes()) }

// Subscribe implements [Bus].
func (None) Subscribe(topic string, _ func([]byte)) (cancel func(), err error) {
	return func() {}, CheckTopic(topic)
}

// SubscribeGroup implements [Bus].
func (None) SubscribeGroup(topic, group string, _ func([]byte)) (cancel func(), err error) {
	return func() {}, errors.Join(CheckTopic(topic), CheckTopic(group))
}

// MaxBytes implements [Bus].
func (None) MaxBytes() int { return 1 << 20 }

// Close implements [Bus].
func (None) Close() error { return nil }
