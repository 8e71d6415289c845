// Package hintstest tests implementations of [hints.Bus]. It also has an implementation for tests of
// several servers in one process.
package hintstest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints"
)

// Run checks an implementation. open returns the bus of another server of the same cluster each
// time.
func Run(t *testing.T, open func(t *testing.T) hints.Bus) {
	buses := []hints.Bus{open(t), open(t), open(t)}
	connected(t, buses)
	t.Run("topics", func(t *testing.T) { testTopics(t, buses) })
	t.Run("order", func(t *testing.T) { testOrder(t, buses) })
	t.Run("group", func(t *testing.T) { testGroup(t, buses) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, buses) })
	t.Run("invalid", func(t *testing.T) { Invalid(t, buses[0]) })
	t.Run("flood", func(t *testing.T) { testFlood(t, buses) })
}

// waitTime bounds the wait for a hint.
const waitTime = 30 * time.Second

// An inbox holds the hints that a subscriber received.
type inbox struct {
	mu    sync.Mutex
	hints []string
}

func (b *inbox) receive(hint []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hints = append(b.hints, string(hint))
}

func (b *inbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.hints...)
}

// subscribe returns the inbox of a new subscriber, which ends with the test.
func subscribe(t *testing.T, b hints.Bus, topic string) *inbox {
	t.Helper()
	in := &inbox{}
	cancel, err := b.Subscribe(topic, in.receive)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return in
}

// settle waits until a subscription of each bus receives the hints of each other bus. It publishes
// hints to the given topic until all buses have received hints from all buses.
func settle(t *testing.T, buses []hints.Bus, topic string) {
	t.Helper()
	var ins []*inbox
	for _, b := range buses {
		ins = append(ins, subscribe(t, b, topic))
	}
	require.Eventually(t, func() bool {
		for i, b := range buses {
			_ = b.Publish(topic, fmt.Append(nil, i))
		}
		for _, in := range ins {
			seen := strings.Join(in.all(), " ")
			for i := range buses {
				if !strings.Contains(seen, fmt.Sprint(i)) {
					return false
				}
			}
		}
		return true
	}, waitTime, 20*time.Millisecond)
}

// connected waits until hints pass between all buses.
func connected(t *testing.T, buses []hints.Bus) { settle(t, buses, "connected") }

// testTopics checks that a hint reaches all subscribers of its topic, on all servers, and no other.
func testTopics(t *testing.T, buses []hints.Bus) {
	var ins []*inbox
	for _, b := range buses {
		ins = append(ins, subscribe(t, b, "topics.a"))
	}
	other := subscribe(t, buses[1], "topics.b")
	settle(t, buses, "topics.settled")
	body := []byte(`{"text":"größer ☃ 'quoted' \"twice\""}`)
	require.NoError(t, buses[0].Publish("topics.a", body))
	require.NoError(t, buses[0].Publish("topics.c", body))
	for _, in := range ins {
		require.Eventually(t, func() bool { return len(in.all()) == 1 }, waitTime, time.Millisecond)
		require.Equal(t, []string{string(body)}, in.all())
	}
	require.Empty(t, other.all())
}

// testOrder checks that a subscriber receives the hints of one server in order.
func testOrder(t *testing.T, buses []hints.Bus) {
	in := subscribe(t, buses[2], "order.a")
	settle(t, buses, "order.settled")
	var want []string
	for i := range 200 {
		want = append(want, fmt.Sprint(i))
		require.NoError(t, buses[0].Publish("order.a", []byte(want[i])))
	}
	require.Eventually(t, func() bool { return len(in.all()) == len(want) }, waitTime, time.Millisecond)
	require.Equal(t, want, in.all())
}

// testGroup checks that a hint reaches at least one subscriber of a group, and subscribers outside
// of the group as well.
func testGroup(t *testing.T, buses []hints.Bus) {
	all := &inbox{}
	for _, b := range buses[1:] {
		cancel, err := b.SubscribeGroup("group.a", "workers", all.receive)
		require.NoError(t, err)
		defer cancel()
	}
	single := subscribe(t, buses[1], "group.a")
	settle(t, buses, "group.settled")
	for i := range 50 {
		require.NoError(t, buses[0].Publish("group.a", fmt.Append(nil, i)))
	}
	require.Eventually(t, func() bool {
		seen := map[string]bool{}
		for _, h := range all.all() {
			seen[h] = true
		}
		return len(seen) == 50 && len(single.all()) == 50
	}, waitTime, time.Millisecond)
}

// testCancel checks that a canceled subscription receives nothing more.
func testCancel(t *testing.T, buses []hints.Bus) {
	in, other := &inbox{}, subscribe(t, buses[1], "cancel.a")
	cancel, err := buses[1].Subscribe("cancel.a", in.receive)
	require.NoError(t, err)
	settle(t, buses, "cancel.settled")
	cancel()
	cancel() // a second call has no effect
	require.NoError(t, buses[0].Publish("cancel.a", []byte("x")))
	require.Eventually(t, func() bool { return len(other.all()) == 1 }, waitTime, time.Millisecond)
	require.Empty(t, in.all())
}

// Invalid checks that a bus rejects invalid topics and hints, and accepts a hint of the maximum size.
func Invalid(t *testing.T, b hints.Bus) {
	for _, topic := range []string{
		"", ".", "a.", ".a", "a..b", "a b", "a\n", "a*", ">", "a.>", "ä", "$JS.API", strings.Repeat("a", 129),
	} {
		require.ErrorIs(t, b.Publish(topic, nil), hints.ErrInvalid, "%q", topic)
		_, err := b.Subscribe(topic, func([]byte) {})
		require.ErrorIs(t, err, hints.ErrInvalid, "%q", topic)
		_, err = b.SubscribeGroup("a", topic, func([]byte) {})
		require.ErrorIs(t, err, hints.ErrInvalid, "%q", topic)
		_, err = b.SubscribeGroup(topic, "a", func([]byte) {})
		require.ErrorIs(t, err, hints.ErrInvalid, "%q", topic)
	}
	largest := bytes.Repeat([]byte("x"), b.MaxBytes())
	require.NoError(t, b.Publish("a", largest))
	for _, hint := range [][]byte{append(largest, 'x'), []byte("a\x00b"), []byte("\xff")} {
		require.ErrorIs(t, b.Publish("a", hint), hints.ErrInvalid, "%.10q", hint)
	}
}

// testFlood checks that Publish does not wait for a subscriber that is slow, and that large hints
// arrive.
func testFlood(t *testing.T, buses []hints.Bus) {
	in := &inbox{}
	release := make(chan struct{})
	cancel, err := buses[1].Subscribe("flood.a", func(hint []byte) {
		<-release
		in.receive(hint[:1])
	})
	require.NoError(t, err)
	defer cancel()
	large := []byte(strings.Repeat("x", buses[0].MaxBytes()))
	published := make(chan struct{})
	go func() {
		defer close(published)
		for range 200 {
			_ = buses[0].Publish("flood.a", large)
		}
	}()
	select {
	case <-published:
	case <-time.After(waitTime):
		require.Fail(t, "Publish waits for a subscriber")
	}
	close(release)
	require.Eventually(t, func() bool { return len(in.all()) > 0 }, waitTime, time.Millisecond)
}
