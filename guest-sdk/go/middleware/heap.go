//go:build wasip1

package middleware

// blockBytes is the size of the blocks that hold most of the host's data.
const blockBytes = 32 << 10

var (
	pool          []byte // rest of the current block
	receivedBytes int    // bytes received from the host since the collector last ran
)
