//go:build wasip1 || guest

package abi

// JSON is raw JSON text, like json.RawMessage, which a host uses instead.
type JSON []byte

// MarshalJSON returns the text, or null if j is nil.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON stores a copy of the text.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}
