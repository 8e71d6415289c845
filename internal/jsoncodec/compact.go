//go:build !wasip1 && !guest

package jsoncodec

import (
	"bytes"
	"encoding/json"
)

// compact appends v to b without insignificant whitespace.
func compact(b, v []byte) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	err := json.Compact(buf, v)
	return buf.Bytes(), err
}
