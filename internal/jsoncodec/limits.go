package jsoncodec

// Limits of JSON text. Package abi declares them for authors; a test compares the two.
const (
	MaxDepth    = 64      // nesting
	MaxNumber   = 64      // bytes of a number literal
	MaxElements = 100_000 // elements of an array
)
