package hintstest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/hints"
)

// A Network connects the buses of several servers in one process. It can delay and drop hints.
// Package synctest controls its time.
type Network struct {
	delay time.Duration

	mu    sync.Mutex
	buses []*networkBus
}

// NewNetwork returns a network whose hints take as long as delay.
func NewNetwork(delay time.Duration) *Network { return &Network{delay: delay} }

// Join returns the bus of a new server, and a function that disconnects the bus from all servers,
// including its own, or connects it again.
func (n *Network) Join() (bus hints.Bus, cut func(bool)) {
	b := &networkBus{network: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buses = append(n.buses, b)
	return b, func(is bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		b.cut = is
	}
}

// A networkBus is the bus of one server.
type networkBus struct {
	network     *Network
	cut         bool // guarded by the network's mu
	subscribers hints.Subscribers

	sending sync.Mutex // held while a hint is passed on
	mu      sync.Mutex
	queue   []func() // hints in transit, the oldest first
}

// Publish implements [hints.Bus]. Hints of a bus stay in order.
func (b *networkBus) Publish(topic string, hint []byte) error {
	if err := hints.Check(topic, hint, b.MaxBytes()); err != nil {
		return err
	}
	hint = bytes.Clone(hint)
	b.mu.Lock()
	b.queue = append(b.queue, func() {
		for _, other := range b.reached() {
			other.subscribers.Send(topic, hint)
		}
	})
	b.mu.Unlock()
	time.AfterFunc(b.network.delay, b.send)
	return nil
}

// send passes on the oldest hint in transit.
func (b *networkBus) send() {
	b.sending.Lock()
	defer b.sending.Unlock()
	b.mu.Lock()
	pass := b.queue[0]
	b.queue = b.queue[1:]
	b.mu.Unlock()
	pass()
}

// reached returns the buses that a hint of b reaches now.
func (b *networkBus) reached() []*networkBus {
	n := b.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if b.cut {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.buses), func(other *networkBus) bool { return other.cut })
}

// Subscribe implements [hints.Bus].
func (b *networkBus) Subscribe(topic string, receive func([]byte)) (cancel func(), err error) {
	if err := hints.CheckTopic(topic); err != nil {
		return nil, err
	}
	return b.subscribers.Add(topic, receive), nil
}

// SubscribeGroup implements [hints.Bus]. Each hint reaches all subscribers of the group.
func (b *networkBus) SubscribeGroup(topic, group string, receive func([]byte)) (cancel func(), err error) {
	if err := hints.CheckTopic(group); err != nil {
		return nil, err
	}
	return b.Subscribe(topic, receive)
}

// MaxBytes implements [hints.Bus].
func (b *networkBus) MaxBytes() int { return 64 << 10 }

// Close implements [hints.Bus].
func (b *networkBus) Close() error {
	b.network.mu.Lock()
	defer b.network.mu.Unlock()
	b.network.buses = slices.DeleteFunc(b.network.buses, func(other *networkBus) bool { return other == b })
	return nil
}
