package runs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
)

// testEvent returns an event with a number and size bytes of data.
func testEvent(seq int64, size int) Event {
	data, _ := json.Marshal(strings.Repeat("x", size))
	return Event{Seq: seq, Type: abi.EventMessage, data: data}
}

// seqs returns the numbers of events.
func seqs(lines []Event) (out []int64) {
	for _, l := range lines {
		out = append(out, l.Seq)
	}
	return out
}

// testService returns a service that shares a network with others, for the tests of hints.
func testService(t *testing.T, bus hints.Bus) *Service {
	log := slog.New(slog.DiscardHandler)
	r := &Service{options: &Options{Hints: bus}, log: log, polls: newPolls(bus, log)}
	r.Active = newActiveRuns(r.newBroadcast)
	go r.Broadcast(t.Context())
	return r
}

// TestBroadcast checks that the events of a run reach its followers on other servers, and that no
// hint is sent if there are no followers. A follower that subscribes late must receive the number of
// the last event.
func TestBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hintstest.NewNetwork(time.Millisecond)
		owner, _ := n.Join()
		other, cut := n.Join()
		here, there := testService(t, owner), testService(t, other)
		sent := 0
		_, err := owner.Subscribe(topicEvents+"run_1", func([]byte) { sent++ })
		require.NoError(t, err)
		run := here.Active.Add("run_1", "acme", nil, nil)
		synctest.Wait()
		run.append(testEvent(1, 10))
		time.Sleep(time.Second)
		require.Zero(t, sent)

		p, leave := there.polls.join("run_1")
		changed := p.wait(time.Hour)
		<-changed
		lines, last := p.since(0)
		require.Empty(t, lines)
		require.Equal(t, int64(1), last)

		changed = p.wait(time.Hour)
		marked := testEvent(2, 10)
		marked.data = []byte(`{"text":"<b>&amp; ☃ \u2028"}`)
		run.append(marked)
		<-changed
		lines, last = p.since(1)
		require.Equal(t, []int64{2}, seqs(lines))
		require.Equal(t, run.tail[1].data, lines[0].data)
		require.Equal(t, int64(2), last)

		cut(true)
		run.append(testEvent(3, 10))
		time.Sleep(time.Second)
		cut(false)
		run.append(testEvent(4, 10))
		time.Sleep(time.Second)
		lines, last = p.since(2)
		require.Empty(t, lines, "event 3 was lost")
		require.Equal(t, int64(4), last)
		lines, _ = p.since(3)
		require.Equal(t, []int64{4}, seqs(lines))

		run.append(testEvent(5, 100<<10)) // too large for a hint
		time.Sleep(time.Second)
		lines, last = p.since(4)
		require.Empty(t, lines)
		require.Equal(t, int64(5), last)

		leave()
		time.Sleep(2 * followTTL)
		before := sent
		run.append(testEvent(6, 10))
		time.Sleep(time.Second)
		require.Equal(t, before, sent)
	})
}

// TestFollowersWakeOnce checks that the followers of a run wake each other once for each interval and
// each hint, however many they are.
func TestFollowersWakeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, seconds = 100, 10
		p := &poll{changed: make(chan struct{})}
		var wakes atomic.Int64
		var all sync.WaitGroup
		end := time.Now().Add(seconds * time.Second)
		for range followers {
			all.Go(func() {
				for time.Now().Before(end) {
					<-p.wait(time.Second)
					wakes.Add(1)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		p.wake() // a hint
		all.Wait()
		require.LessOrEqual(t, wakes.Load(), int64(followers*(seconds+2)))
		time.Sleep(time.Minute) // no timer is left

		// A wait for a shorter time replaces the timer.
		began := time.Now()
		p.wait(time.Hour)
		<-p.wait(time.Second)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestHintedIsBounded checks the limits of the events that wait for followers.
func TestHintedIsBounded(t *testing.T) {
	var h hinted
	add := func(seq int64, size int) {
		text, err := json.Marshal(&hintedEvent{Seq: seq, Data: testEvent(seq, size).data})
		require.NoError(t, err)
		require.True(t, h.add(text))
	}
	for i := range int64(1000) {
		add(i+1, 1)
	}
	require.LessOrEqual(t, len(h.tail), maxHinted)
	require.Equal(t, int64(1000), h.tail[len(h.tail)-1].Seq)
	require.Len(t, h.since(998), 2)
	require.Len(t, h.since(h.tail[0].Seq-1), maxBatch)
	require.Empty(t, h.since(h.tail[0].Seq-2))
	require.Empty(t, h.since(1000))
	require.Empty(t, h.since(5000))
	add(1001, 20<<10)
	add(1002, 20<<10)
	require.LessOrEqual(t, h.bytes, maxHintedBytes)
	require.Equal(t, []int64{1002}, seqs(h.since(1001)))
	add(1003, 60<<10)
	require.Empty(t, h.tail)
	require.Zero(t, h.bytes)
	add(1004, 1)
	require.Equal(t, []int64{1004}, seqs(h.since(1003)))
	for _, text := range []string{"", "{", `{"seq":1004}`, `{"seq":-1}`, `{"seq":"x"}`, "null"} {
		require.False(t, h.add([]byte(text)), text)
	}
	require.Equal(t, int64(1004), h.last)
	require.Equal(t, fmt.Sprint(seqs(h.tail)), "[1004]")
}
