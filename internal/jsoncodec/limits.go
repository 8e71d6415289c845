package jsoncodec

// Limits of JSON text. Package abi documents them.
const (
	maxDepth    = 64      // abi.MaxDepth
	maxNumber   = 64      // abi.MaxNumber
	maxElements = 100_000 // abi.MaxElements
)
