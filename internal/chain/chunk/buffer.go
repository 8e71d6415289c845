package chunk

import (
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// How much may wait in a [Gathering].
const (
	MaxWaiting      = 256
	maxWaitingBytes = 1 << 20
)

// A Gathering are chunks that wait to be taken together. How many there may be is
// bounded. Its zero value is empty.
type Buffer struct {
	mu    sync.Mutex
	queue []abi.Chunk
	size  int // bytes in the queue, about
}

// Add adds chunks, unless too many wait already.
func (g *Buffer) Add(chunks ...abi.Chunk) bool {
	n := int(size.Chunks(chunks))
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 && (len(g.queue)+len(chunks) > MaxWaiting || g.size+n > maxWaitingBytes) {
		return false
	}
	g.queue = append(g.queue, chunks...)
	g.size += n
	return true
}

// Room gives an empty gathering room for chunks that is not its own.
func (g *Buffer) Room(room []abi.Chunk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue, g.size = room[:0], 0
}

// Take takes the chunks that wait: all of them, or as many as are at most that many
// bytes, and at least one. It returns how many are left.
func (g *Buffer) Take(most int) (chunks []abi.Chunk, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, total := 0, 0
	for n < len(g.queue) && (n == 0 || total+size.Chunk(&g.queue[n]) <= most) {
		total += size.Chunk(&g.queue[n])
		n++
	}
	chunks, g.queue = g.queue[:n:n], g.queue[n:]
	g.size -= total
	return chunks, len(g.queue)
}
