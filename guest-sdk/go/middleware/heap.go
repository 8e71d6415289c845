//go:build wasip1

package middleware

// blockBytes is how large the blocks are in which most of what the host gives lies.
const blockBytes = 32 << 10

var (
	pool []byte // what is left of the last block
	came int    // bytes that the host gave for which the collector has not had a turn
)
