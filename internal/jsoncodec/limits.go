package jsoncodec

// Limits of the JSON text that a [Scanner] accepts.
const (
	MaxDepth    = 64      // nesting of arrays and objects that are not empty
	MaxNumber   = 64      // bytes of a number literal
	MaxElements = 100_000 // elements of an array that is decoded; raw JSON has no limit
)
