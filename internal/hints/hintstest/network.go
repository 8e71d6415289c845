package hintstest

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/hints"
)

// A Network connects the buses of several servers in one process. It can delay and drop hints.
// Package synctest controls its time.
type Network struct {
	delay  time.Duration
	passed atomic.Int64

	mu     sync.Mutex
	buses  []*networkBus
	joined int
	fault  Fault // nil for none
}

// A Fault returns what happens to a hint on its way from one bus to another: the number of copies that
// arrive, and for how much longer than others they take. Buses have the numbers 0, 1, … in the order of
// their [Network.Join]. It is called concurrently.
type Fault func(from, to int) (copies int, delay time.Duration)

// SetFault sets the fault of all further hints; nil ends it.
func (n *Network) SetFault(f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

// Passed returns the number of hints that have arrived so far, counted once for each bus.
func (n *Network) Passed() int64 { return n.passed.Load() }

// NewNetwork returns a network whose hints take as long as delay.
func NewNetwork(delay time.Duration) *Network { return &Network{delay: delay} }

// Join returns the bus of a new server, and a function that disconnects the bus from all servers,
// including its own, or connects it again.
func (n *Network) Join() (bus hints.Bus, cut func(bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := &networkBus{network: n, number: n.joined}
	n.joined++
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
	number      int
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
		others, fault := b.reached()
		for _, other := range others {
			copies, delay := 1, time.Duration(0)
			if fault != nil {
				copies, delay = fault(b.number, other.number)
			}
			other.receive(topic, hint, copies, delay)
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

// receive calls the bus's subscribers with copies of a hint after a delay.
func (b *networkBus) receive(topic string, hint []byte, copies int, delay time.Duration) {
	if delay > 0 {
		time.AfterFunc(delay, func() { b.receive(topic, hint, copies, 0) })
		return
	}
	for range copies {
		b.network.passed.Add(1)
		b.subscribers.Send(topic, hint)
	}
}

// reached returns the buses that a hint of b reaches now, and the fault of the network.
func (b *networkBus) reached() ([]*networkBus, Fault) {
	n := b.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if b.cut {
		return nil, nil
	}
	return slices.DeleteFunc(slices.Clone(n.buses), func(other *networkBus) bool { return other.cut }), n.fault
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
