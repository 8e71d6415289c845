//go:build wasip1 || guest

package abijson

// Marshal encodes v as encoding/json does, but without escaping <, > and &.
func Marshal(v any) ([]byte, error) { return MarshalValue(v) }
