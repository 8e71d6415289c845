// Package pipe passes the chunks of streamed answers from one goroutine to another through bounded
// buffers.
package pipe

import (
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

const (
	// MaxWaiting and maxWaitingBytes are the maximum number of chunks in a [Buffer] and their
	// maximum size in bytes, by estimate.
	MaxWaiting      = 256
	maxWaitingBytes = 1 << 20
)

// A Buffer stores chunks until they are taken together. Its size is bounded. The zero value is an
// empty buffer.
type Buffer struct {
	mu    sync.Mutex
	queue []abi.Chunk
	size  int // approximate bytes in the queue
}

// Add adds chunks. If the chunks do not fit, it adds nothing and returns false. Any chunks fit into
// an empty buffer.
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

// Room discards the buffered chunks. It makes the buffer store new chunks in the array of room,
// which saves an allocation.
func (g *Buffer) Room(room []abi.Chunk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue, g.size = room[:0], 0
}

// Take removes and returns the first chunks, at most limit bytes but at least one chunk if the
// buffer is not empty. left is the number of remaining chunks.
func (g *Buffer) Take(limit int) (chunks []abi.Chunk, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, total := 0, 0
	for n < len(g.queue) && (n == 0 || total+size.Chunk(&g.queue[n]) <= limit) {
		total += size.Chunk(&g.queue[n])
		n++
	}
	chunks, g.queue = g.queue[:n:n], g.queue[n:]
	g.size -= total
	return chunks, len(g.queue)
}
