//go:build !wasip1 && !guest

package abi

import (
	"bytes"
	"encoding/json"
	"time"
)

// What only a host needs: a module is 0.3 MB larger with time alone, and 0.8 MB with
// encoding/json.

// JSON is a JSON text as it came. In a module it is a type of this package's own: there
// a json.RawMessage is converted, as abi.JSON(raw).
type JSON = json.RawMessage

// compact appends a JSON text without the spaces between its parts.
func compact(b []byte, v JSON) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	err := json.Compact(buf, v)
	return buf.Bytes(), err
}

// Count notes one hook call that took so long.
func (s *EntryStats) Count(h Hook, wall time.Duration, faulted bool) {
	s.Calls++
	s.Hooks[h]++
	s.WallUS += wall.Microseconds()
	if faulted {
		s.Faults++
	}
}
